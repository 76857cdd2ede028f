//! Finds what looks secret in free text and replaces it by what it was.
