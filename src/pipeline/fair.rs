//! Fair shares of a room that has an end: of the queue, and of the memory for bodies.
//!
//! A sender is told apart on three levels: by the token that it presents, within it by the address
//! that it comes from, and there by a name: the service that its events speak of, or while a body
//! is read the connection. The room is shared equally on each level among those who hold some of
//! it, and nobody has to be configured:
//!
//! - While the room is half empty, whoever comes gets in. One sender alone may fill it up to a part
//!   that stays free for newcomers, which keeps the writer busy.
//! - From there on a sender gets in as long as it stays within its share: the room, divided by the
//!   number of tokens that hold some of it, by that of addresses, by that of names. Whoever wants
//!   less than that is never refused because others want more.
//! - A newcomer, who holds nothing yet, gets in as long as anything is free. So that something
//!   stays free, on each level no more may be held than a multiple of what is free above it
//!   ([`WEIGHTS`]; the *dynamic threshold* of Choudhury and Hahne, "Dynamic Queue Length Thresholds
//!   for Shared-Memory Packet Switches", 1998).
//!
//! Names cost nothing, so they only divide what their address may hold, and addresses only what
//! their token may. Somebody who invents names crowds out nobody behind another address or token;
//! behind the same address (a proxy, NAT, loopback) each name counts only while something of it
//! waits, so that `n` connections weigh as much as `n` honest senders with one connection each.
//! For the same reason memory is bounded: a number is kept per sender of which something waits.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many times of what is free above it may be held by newcomers and all others together: by a
/// token, of the room; by an address, of what its token may still hold; by a name, of what its
/// address may still hold. A single sender is so kept to 8/12 of the room.
const WEIGHTS: [i64; 3] = [4, 2, 1];

/// For how long a sender counts as there after it was last seen.
const PRESENCE: Duration = Duration::from_secs(10);

/// Bounds of the wait that a refused sender is asked for.
const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Where a request comes from, as far as that is known before its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source {
    token: Option<usize>,
    address: Option<IpAddr>,
}

impl Source {
    /// `token` is the place of the presented token among the known ones, where tokens are needed.
    /// Of an IPv6 address the first 64 bits count: a host may choose the others as it likes
    /// (RFC 4291 section 2.5.4).
    pub fn new(token: Option<usize>, address: Option<IpAddr>) -> Self {
        let address = address.map(|address| match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 @ IpAddr::V4(_) => v4,
        });
        Self { token, address }
    }

    /// A connection of it, by its port.
    pub fn connection(self, port: Option<u16>) -> Sender {
        Sender { source: self, name: Name::Connection(port) }
    }

    /// A service of it, by the name in its events; empty where a batch holds several.
    pub fn service(self, name: &str) -> Sender {
        Sender { source: self, name: Name::Service(Arc::from(name)) }
    }
}

/// Who wants room.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sender {
    source: Source,
    name: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Connection(Option<u16>),
    Service(Arc<str>),
}

/// Why there was no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// For nobody, or the only one there has taken all that one may.
    Full {
        /// How much of what is held has to go until there is.
        missing: usize,
    },
    /// Others would still get in: this sender holds its share already.
    OverShare {
        /// How much of what is held, by all, has to go until there is.
        missing: usize,
    },
}

/// Who holds how much.
#[derive(Debug)]
struct Shares {
    total: usize,
    used: usize,
    tokens: HashMap<Option<usize>, Group>,
    sources: HashMap<Source, Group>,
    senders: HashMap<Sender, usize>,
    /// The sender that was seen last, and the last one that was another.
    seen: [Option<(Sender, Instant)>; 2],
}

/// What those of one token, or of one address, hold.
#[derive(Debug, Default)]
struct Group {
    held: usize,
    /// How many addresses, or names, hold it.
    members: usize,
}

impl Shares {
    fn new(total: usize) -> Self {
        Self {
            total: total.max(1),
            used: 0,
            tokens: HashMap::new(),
            sources: HashMap::new(),
            senders: HashMap::new(),
            seen: [None, None],
        }
    }

    /// What is held by the token and the address of `source`, and in it by `sender`.
    fn held(&self, source: &Source, sender: Option<&Sender>) -> [usize; 3] {
        [
            self.tokens.get(&source.token).map_or(0, |token| token.held),
            self.sources.get(source).map_or(0, |source| source.held),
            sender.and_then(|sender| self.senders.get(sender)).copied().unwrap_or(0),
        ]
    }

    /// The part of `room` that is due to a name of `source` which holds something.
    fn share(&self, source: &Source, room: usize) -> usize {
        let addresses = self.tokens.get(&source.token).map_or(1, |token| token.members);
        let names = self.sources.get(source).map_or(1, |source| source.members);
        room / self.tokens.len().max(1) / addresses.max(1) / names.max(1)
    }

    /// How much a newcomer may bring where `held` is held by its token, address and name.
    fn room(&self, held: [usize; 3]) -> usize {
        let rooms = levels(self.total, self.used, held).map(|(spare, slope)| spare / slope);
        usize::try_from(rooms.into_iter().min().unwrap_or_default().max(0)).unwrap_or_default()
    }

    /// How much has to go, from each holder in proportion, until there is room for a newcomer.
    fn missing_for_newcomers(&self, held: [usize; 3]) -> usize {
        let used = int(self.used);
        let now = levels(self.total, self.used, held);
        let empty = levels(self.total, 0, [0; 3]);
        // What is spare grows in a straight line to `most`, when nothing is held any more.
        let missing = now.into_iter().zip(empty).map(|((spare, slope), (most, _))| {
            let (short, growth) = (i128::from(slope - spare), i128::from(most - spare));
            if short <= 0 {
                0
            } else if slope >= most {
                used
            } else {
                i64::try_from((i128::from(used) * short + growth - 1) / growth).unwrap_or(used)
            }
        });
        usize::try_from(missing.max().unwrap_or_default()).unwrap_or_default().max(1)
    }

    /// How much has to go, from each holder in proportion, until `sender`, who holds some of `room`,
    /// may add `amount`.
    fn missing_for_more(&self, sender: &Sender, room: usize, amount: usize) -> usize {
        let own = self.senders.get(sender).copied().unwrap_or(0);
        let after = self.used.saturating_add(amount);
        let until_half_empty = after.saturating_sub(room / 2);
        let over = own.saturating_add(amount).saturating_sub(self.share(&sender.source, room));
        // Of what goes, its part is `own` of all that is used.
        let until_in_share = over.min(own).saturating_mul(self.used).div_ceil(own.max(1));
        let until_it_fits = after.saturating_sub(self.most());
        until_in_share.min(until_half_empty).max(until_it_fits).clamp(1, self.used.max(1))
    }

    /// Takes `amount`, or less where a newcomer brings more than there is room for: then half of
    /// the room counts, so that the next newcomer finds some too. Gives what counts.
    fn take(
        &mut self,
        sender: &Sender,
        amount: usize,
        rule: Rule,
        now: Instant,
    ) -> Result<usize, Refusal> {
        let held = self.held(&sender.source, Some(sender));
        let was_alone = self.see(sender, now);
        let [_, _, own] = held;
        let is_newcomer = own == 0 || rule == Rule::Grown;
        let charged = if is_newcomer {
            match self.room(held) {
                0 => return Err(self.refusal(self.missing_for_newcomers(held), was_alone)),
                room if amount <= room => amount,
                _ if rule == Rule::Part => {
                    return Err(self.refusal(self.missing_for_newcomers(held), was_alone));
                }
                room => room.div_ceil(2),
            }
        } else {
            // A third is for newcomers alone.
            let room = self.total - self.total / 3;
            let room = if let Rule::Batch { at_most } = rule { room.min(at_most) } else { room };
            let after = self.used.saturating_add(amount);
            let in_share = own.saturating_add(amount) <= self.share(&sender.source, room);
            if after > self.most() || !(after <= room / 2 || in_share) {
                return Err(self.refusal(self.missing_for_more(sender, room, amount), was_alone));
            }
            amount
        };
        self.add(sender, charged);
        Ok(charged)
    }

    /// Up to where those who hold something may fill the room when newcomers came in between; what
    /// is left lets newcomers from other addresses in.
    fn most(&self) -> usize {
        self.total - self.total / 4
    }

    fn add(&mut self, sender: &Sender, amount: usize) {
        if amount == 0 {
            return;
        }
        self.used += amount;
        let token = self.tokens.entry(sender.source.token).or_default();
        let source = self.sources.entry(sender.source).or_default();
        let own = self.senders.entry(sender.clone()).or_default();
        token.members += usize::from(source.held == 0);
        source.members += usize::from(*own == 0);
        token.held += amount;
        source.held += amount;
        *own += amount;
    }

    /// Undoes what [`Self::add`] did.
    fn give_back(&mut self, sender: &Sender, amount: usize) {
        self.used = self.used.saturating_sub(amount);
        let Some(own) = self.senders.get_mut(sender) else { return };
        *own = own.saturating_sub(amount);
        let has_left = *own == 0;
        if has_left {
            self.senders.remove(sender);
        }
        let has_left = reduce(&mut self.sources, &sender.source, amount, has_left);
        reduce(&mut self.tokens, &sender.source.token, amount, has_left);
    }

    /// Remembers that `sender` was here; whether nobody else was for a while.
    fn see(&mut self, sender: &Sender, now: Instant) -> bool {
        let [last, other] = &mut self.seen;
        if last.as_ref().is_some_and(|(last, _)| last != sender) {
            *other = last.take();
        }
        *last = Some((sender.clone(), now));
        !self.was_seen(now, |seen| seen != sender)
    }

    /// Whether one of those seen last, not long ago, is like that.
    fn was_seen(&self, now: Instant, is_like: impl Fn(&Sender) -> bool) -> bool {
        let mut seen = self.seen.iter().flatten();
        seen.any(|(sender, at)| is_like(sender) && now.duration_since(*at) <= PRESENCE)
    }

    fn refusal(&self, missing: usize, is_alone: bool) -> Refusal {
        if is_alone || self.is_full() {
            Refusal::Full { missing }
        } else {
            Refusal::OverShare { missing }
        }
    }

    /// Whether even somebody who holds nothing at all would be refused.
    fn is_full(&self) -> bool {
        self.room([0; 3]) == 0
    }
}

/// For each level how much more could be held there, and how fast that falls with what is added,
/// times that amount.
fn levels(total: usize, used: usize, held: [usize; 3]) -> [(i64, i64); 3] {
    let (mut free, mut slope) = (int(total) - int(used), 1);
    let mut level = 0;
    WEIGHTS.map(|weight| {
        // What is added is held here and missing above.
        free = weight * free - held.get(level).copied().map_or(0, int);
        slope = weight * slope + 1;
        level += 1;
        (free, slope)
    })
}

/// Sizes stay far below this bound, so that they can be multiplied by the weights.
fn int(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX).min(1 << 50)
}

/// Takes `amount` from a group, and a member where that `has_left`; whether the group is gone.
fn reduce<K: Hash + Eq>(
    groups: &mut HashMap<K, Group>,
    key: &K,
    amount: usize,
    has_left: bool,
) -> bool {
    let Some(group) = groups.get_mut(key) else { return false };
    group.held = group.held.saturating_sub(amount);
    group.members = group.members.saturating_sub(usize::from(has_left));
    let is_gone = group.held == 0;
    if is_gone {
        groups.remove(key);
    }
    is_gone
}

/// How an amount is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A batch of events. Who has nothing in the room may bring one of any size; who has may fill
    /// the room no further than `at_most`.
    Batch {
        /// The room for those who hold something.
        at_most: usize,
    },
    /// A part of a body: fits or is refused.
    Part,
    /// What was taken in already turned out larger: refused only where there is no room at all.
    Grown,
}

/// A room of a fixed size that senders share. Clones are the same room.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Mutex<Shares>>);

impl Room {
    /// An empty room of that size, at least 1.
    pub(crate) fn new(total: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(total))))
    }

    /// Takes a place for `amount`.
    pub(crate) fn take(
        &self,
        sender: &Sender,
        amount: usize,
        rule: Rule,
    ) -> Result<Place, Refusal> {
        let taken = self.shares().take(sender, amount, rule, Instant::now())?;
        Ok(Place { room: self.clone(), sender: sender.clone(), taken })
    }

    /// Whether there is room for somebody new from `source`.
    pub(crate) fn admits(&self, source: &Source) -> Result<(), Refusal> {
        let shares = self.shares();
        let held = shares.held(source, None);
        if shares.room(held) > 0 {
            return Ok(());
        }
        let is_alone = !shares.was_seen(Instant::now(), |sender| sender.source != *source);
        Err(shares.refusal(shares.missing_for_newcomers(held), is_alone))
    }

    /// How much is taken.
    pub(crate) fn used(&self) -> usize {
        self.shares().used
    }

    /// Whether nobody gets in.
    pub(crate) fn is_full(&self) -> bool {
        self.shares().is_full()
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a room, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Room,
    sender: Sender,
    taken: usize,
}

impl Place {
    /// Takes `more` in addition.
    pub(crate) fn grow(&mut self, more: usize, rule: Rule) -> Result<(), Refusal> {
        self.taken += self.room.shares().take(&self.sender, more, rule, Instant::now())?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.shares().give_back(&self.sender, self.taken);
    }
}

/// What a refused sender is told to wait when it would have room after `wait`: whole seconds, as
/// `Retry-After` has no others, and up to a quarter more, at least up to one second, so that those
/// who were refused together do not come back together.
pub(crate) fn with_jitter(wait: Duration) -> Duration {
    let wait = wait.clamp(MIN_WAIT, MAX_WAIT);
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Duration::from_secs(seconds + rand::random_range(0..=seconds.div_ceil(4)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const TOTAL: usize = 12_000;

    fn source(token: usize, address: u8) -> Source {
        Source::new(Some(token), Some(IpAddr::from([192, 0, 2, address])))
    }

    fn batch(shares: &mut Shares, sender: &Sender, amount: usize) -> Result<usize, Refusal> {
        shares.take(sender, amount, Rule::Batch { at_most: TOTAL }, Instant::now())
    }

    /// Takes what it can in steps of `step`.
    fn press(shares: &mut Shares, sender: &Sender, step: usize) -> usize {
        let mut taken = 0;
        while let Ok(charged) = batch(shares, sender, step) {
            taken += charged;
        }
        taken
    }

    #[test]
    fn one_sender_alone_may_hold_two_thirds() {
        let mut shares = Shares::new(TOTAL);
        let sender = source(0, 1).service("a");
        assert_eq!(press(&mut shares, &sender, 100), TOTAL * 2 / 3);
        let refused = batch(&mut shares, &sender, 100);
        assert!(matches!(refused, Err(Refusal::Full { .. })), "nobody else is there: {refused:?}");
    }

    #[test]
    fn whoever_holds_its_share_is_told_so_while_others_get_in() {
        let mut shares = Shares::new(TOTAL);
        let greedy = source(0, 1).service("greedy");
        press(&mut shares, &greedy, 100);
        let elsewhere = [
            source(0, 1).service("same address"),
            source(0, 2).service("greedy"),
            source(1, 1).service("greedy"),
        ];
        for newcomer in elsewhere {
            assert_eq!(batch(&mut shares, &newcomer, 100), Ok(100), "{newcomer:?}");
            let refused = batch(&mut shares, &greedy, 100);
            assert!(matches!(refused, Err(Refusal::OverShare { .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_batch_larger_than_the_room_is_taken_from_whoever_has_nothing_waiting() {
        let mut shares = Shares::new(100);
        let [one, other] = [source(0, 1).service("a"), source(0, 2).service("b")];
        assert!(batch(&mut shares, &one, 5_000).is_ok());
        assert!(batch(&mut shares, &one, 5_000).is_err());
        assert!(batch(&mut shares, &other, 1).is_ok(), "something stays free");
    }

    #[test]
    fn a_full_room_is_full_for_everybody() {
        let mut shares = Shares::new(TOTAL);
        for n in 0..200 {
            press(&mut shares, &source(n, 1).service("a"), 100_000);
        }
        assert!(shares.is_full());
        let refused = batch(&mut shares, &source(500, 1).service("a"), 1);
        assert!(matches!(refused, Err(Refusal::Full { .. })), "{refused:?}");
    }

    #[test]
    fn addresses_of_one_host_are_one_source() {
        let from = |text: &str| Source::new(None, Some(text.parse().unwrap()));
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:2"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
        assert_ne!(from("192.0.2.2"), from("192.0.2.1"));
    }

    #[test]
    fn waits_are_whole_seconds_never_too_short_and_spread() {
        for (wait_ms, least, most) in [(0, 1, 2), (1_000, 1, 2), (1_001, 2, 3), (20_000, 20, 25)] {
            let told: std::collections::BTreeSet<_> =
                (0..200).map(|_| with_jitter(Duration::from_millis(wait_ms))).collect();
            assert_eq!(told.first(), Some(&Duration::from_secs(least)), "{wait_ms}");
            assert_eq!(told.last(), Some(&Duration::from_secs(most)), "{wait_ms}");
        }
        assert!(with_jitter(Duration::MAX) <= Duration::from_secs(75));
    }

    /// Senders as the number picks them: three tokens, three addresses, many names.
    fn anybody() -> impl Strategy<Value = Sender> {
        (0_usize..3, 0_u8..3, 0_u8..40)
            .prop_map(|(token, address, name)| source(token, address).service(&name.to_string()))
    }

    proptest! {
        #[test]
        fn the_sums_hold_and_nothing_is_kept_of_who_left(
            steps in proptest::collection::vec((anybody(), 1_usize..30_000), 1..200),
        ) {
            let mut shares = Shares::new(TOTAL);
            let mut taken = Vec::new();
            for (sender, amount) in steps {
                if let Ok(charged) = batch(&mut shares, &sender, amount) {
                    prop_assert!((1..=amount).contains(&charged));
                    taken.push((sender, charged));
                }
                let sum: usize = taken.iter().map(|(_, charged)| charged).sum();
                prop_assert_eq!(shares.used, sum);
                prop_assert!(shares.used <= TOTAL);
                let held = |groups: &mut dyn Iterator<Item = &Group>| -> (usize, usize) {
                    groups.fold((0, 0), |sum, group| (sum.0 + group.held, sum.1 + group.members))
                };
                prop_assert_eq!(held(&mut shares.tokens.values()), (sum, shares.sources.len()));
                prop_assert_eq!(held(&mut shares.sources.values()), (sum, shares.senders.len()));
                prop_assert_eq!(shares.senders.values().sum::<usize>(), sum);
                prop_assert!(shares.senders.len() <= taken.len());
            }
            for (sender, charged) in taken {
                shares.give_back(&sender, charged);
            }
            prop_assert_eq!(shares.used, 0);
            prop_assert!(shares.tokens.is_empty() && shares.sources.is_empty());
            prop_assert!(shares.senders.is_empty());
        }

        #[test]
        fn invented_names_crowd_out_nobody_behind_another_address(
            steps in proptest::collection::vec((0_u32..2_000, 1_usize..60_000), 1..600),
        ) {
            let mut shares = Shares::new(TOTAL);
            for (name, amount) in steps {
                batch(&mut shares, &source(0, 1).service(&name.to_string()), amount).ok();
            }
            for polite in [source(0, 2).service("polite"), source(1, 1).service("polite")] {
                let charged = batch(&mut shares, &polite, 500);
                prop_assert_eq!(charged, Ok(500));
                shares.give_back(&polite, 500);
            }
        }

        #[test]
        fn one_greedy_name_leaves_room_for_others_behind_its_address(
            steps in proptest::collection::vec(1_usize..6_000, 1..200),
        ) {
            let mut shares = Shares::new(TOTAL);
            for amount in steps {
                batch(&mut shares, &source(0, 1).service("greedy"), amount).ok();
            }
            let charged = batch(&mut shares, &source(0, 1).service("polite"), 300);
            prop_assert_eq!(charged, Ok(300));
        }

        #[test]
        fn after_what_is_missing_went_there_is_room(
            steps in proptest::collection::vec((anybody(), 1_usize..2_000), 20..200),
            amount in 1_usize..2_000,
        ) {
            let mut shares = Shares::new(TOTAL);
            let mut taken = Vec::new();
            for (sender, amount) in steps {
                if let Ok(charged) = batch(&mut shares, &sender, amount) {
                    taken.push((sender, charged));
                }
            }
            let Some((sender, _)) = taken.first().cloned() else { return Ok(()) };
            let Err(refusal) = batch(&mut shares, &sender, amount) else { return Ok(()) };
            let (Refusal::OverShare { missing } | Refusal::Full { missing }) = refusal;
            prop_assert!((1..=shares.used).contains(&missing));
            let used = shares.used;
            for (sender, charged) in &taken {
                // Rounded up for each, as batches go whole.
                shares.give_back(sender, (charged * missing).div_ceil(used));
            }
            prop_assert!(batch(&mut shares, &sender, amount).is_ok());
        }

        #[test]
        fn who_asks_for_less_than_an_equal_part_is_never_refused(
            greedy in 1_usize..12,
            behind_one_address: bool,
            step in 20_usize..400,
        ) {
            // All press between commits of a tenth of the room, first in, first out.
            let name = |n: usize| {
                let n = u8::try_from(n).unwrap();
                let address = if behind_one_address { 1 } else { n };
                source(0, address).service(&n.to_string())
            };
            let mut shares = Shares::new(TOTAL);
            let mut queue: VecDeque<(Sender, usize)> = VecDeque::new();
            let polite = name(100);
            for round in 0..40 {
                let mut anyone_got_in = true;
                while anyone_got_in {
                    anyone_got_in = false;
                    for n in 0..greedy {
                        if let Ok(charged) = batch(&mut shares, &name(n), step) {
                            queue.push_back((name(n), charged));
                            anyone_got_in = true;
                        }
                    }
                }
                let part = TOTAL / (greedy + 1) / 20;
                let taken = batch(&mut shares, &polite, part.max(1));
                prop_assert!(taken.is_ok(), "round {round}: {taken:?} {shares:?}");
                queue.push_back((polite.clone(), taken.unwrap()));
                let mut written = 0;
                while written < TOTAL / 10 {
                    let Some((sender, charged)) = queue.pop_front() else { break };
                    written += charged;
                    shares.give_back(&sender, charged);
                }
            }
        }
    }
}
