//! Enums that own their spelling: one kebab-case word per value, everywhere.

/// A word that is not one of the values expected for a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of: {expected}")]
pub struct UnknownWord {
    /// What was sent, shortened to 64 characters.
    pub word: String,
    /// The accepted words, separated by commas.
    pub expected: String,
}

/// Defines an enum whose values are spelled in kebab-case: `as_str`, `FromStr`, `Display`,
/// `ALL` and serde's traits come from the one list of words.
macro_rules! spelled_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$vmeta:meta])* $variant:ident => $word:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $( $(#[$vmeta])* $variant, )+ }

        impl $name {
            /// Every value, in the order of the definition.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The one spelling of this value.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::domain::spelling::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.as_str() == word).ok_or_else(|| {
                    $crate::domain::spelling::UnknownWord {
                        word: word.chars().take(64).collect(),
                        expected: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                    }
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use spelled_enum;

#[cfg(test)]
mod tests {
    use crate::domain::classify::{LimitType, Responder};

    #[test]
    fn every_word_reads_back_as_itself() {
        for responder in Responder::ALL {
            assert_eq!(responder.as_str().parse(), Ok(*responder));
        }
        for kind in LimitType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
    }

    #[test]
    fn an_unknown_word_names_what_was_expected() {
        let error = "speed".parse::<LimitType>().unwrap_err();
        assert!(error.to_string().contains("rate, quota"), "{error}");
    }
}
