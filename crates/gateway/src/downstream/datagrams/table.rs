//! The sessions of a worker by client: found by key in one step, bounded, and in the order of their last use,
//! so that the one that was idle longest gives way to a new one. It opens no socket.
//!
//! The addresses of datagrams can be forged, and a flood of them must not push out the sessions of real
//! clients. So a session is on probation until its client has sent a datagram after an answer, and sessions
//! on probation give way first while they hold more than an eighth of the places.

use std::net::{IpAddr, SocketAddr};

use stdx::hash::FastMap;

/// The share of all places that sessions on probation keep when others are full: one in so many.
const PROBATION_SHARE: usize = 8;
/// The order of use is exact to this time, because a list is changed for each move.
const MOVE_AFTER_MS: u64 = 250;
/// Stands for the end of a list.
const NONE: u32 = u32::MAX;

/// The parts of a datagram by which sessions are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    /// The number of the socket that its datagrams come by.
    pub(super) port: u32,
    /// The client.
    pub(super) client: SocketAddr,
    /// The address of this host that it sends to.
    pub(super) local: IpAddr,
}

/// A place of the table. Its number is a token's lower half; the upper half tells the sessions of one place
/// apart.
struct SessionSlot<S> {
    key: SessionKey,
    turn: u32,
    used_ms: u64,
    moved_ms: u64,
    list: usize,
    /// Whether its key leads here.
    is_bound: bool,
    before: u32,
    after: u32,
    session: Option<S>,
}

/// A list of places, the longest idle first.
#[derive(Clone, Copy)]
struct SessionList {
    first: u32,
    last: u32,
    count: usize,
}

const PROBATION: usize = 0;
const PROVEN: usize = 1;

/// See the module.
pub(super) struct SessionTable<S> {
    places: Vec<SessionSlot<S>>,
    free: Vec<u32>,
    by_key: FastMap<SessionKey, u32>,
    orders: [SessionList; 2],
    limit: usize,
}

impl<S> SessionTable<S> {
    /// A table of at most `limit` sessions.
    pub(super) fn new(limit: usize) -> SessionTable<S> {
        let empty = SessionList { first: NONE, last: NONE, count: 0 };
        let limit = limit.clamp(1, NONE as usize);
        SessionTable {
            places: Vec::new(),
            free: Vec::new(),
            by_key: FastMap::default(),
            orders: [empty; 2],
            limit,
        }
    }

    /// Sets another limit; the sessions that are too many.
    pub(super) fn set_limit(&mut self, limit: usize) -> Vec<S> {
        self.limit = limit.clamp(1, NONE as usize);
        let mut gone = Vec::new();
        while self.len() > self.limit {
            let Some(session) = self.gives_way().and_then(|token| self.remove(token)) else { break };
            gone.push(session);
        }
        gone
    }

    /// How many sessions there are.
    pub(super) fn len(&self) -> usize {
        self.orders.iter().map(|order| order.count).sum()
    }

    /// The token of the session of `key`.
    pub(super) fn find(&self, key: &SessionKey) -> Option<u64> {
        self.by_key.get(key).map(|index| self.token(*index))
    }

    /// The session of a token; none if it has ended.
    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut S> {
        let place = self.places.get_mut(token as u32 as usize)?;
        if place.turn == (token >> 32) as u32 { place.session.as_mut() } else { None }
    }

    /// The session of a token, which is used at `now_ms`.
    pub(super) fn used(&mut self, token: u64, now_ms: u64) -> Option<&mut S> {
        let index = token as u32;
        let place = self.places.get_mut(index as usize)?;
        if place.turn != (token >> 32) as u32 || place.session.is_none() {
            return None;
        }
        place.used_ms = now_ms;
        if now_ms.saturating_sub(place.moved_ms) >= MOVE_AFTER_MS {
            place.moved_ms = now_ms;
            let list = place.list;
            self.unlink(index);
            self.link(index, list);
        }
        self.places[index as usize].session.as_mut()
    }

    /// The client of the session has answered an answer, so that its address is its own.
    pub(super) fn prove(&mut self, token: u64) {
        let index = token as u32;
        if self.get_mut(token).is_some() && self.places[index as usize].list == PROBATION {
            self.unlink(index);
            self.link(index, PROVEN);
        }
    }

    /// The session that has to end before another one can begin; none while there is room.
    pub(super) fn gives_way(&self) -> Option<u64> {
        if self.len() < self.limit {
            return None;
        }
        let keeps = (self.limit / PROBATION_SHARE).max(1);
        let [probation, proven] = &self.orders;
        let order = if probation.count >= keeps || proven.count == 0 { probation } else { proven };
        Some(self.token(order.first))
    }

    /// Puts a session in, used at `now_ms`; its token. The caller has made room.
    pub(super) fn insert(&mut self, key: SessionKey, now_ms: u64, make: impl FnOnce(u64) -> S) -> u64 {
        let place = SessionSlot {
            key,
            turn: 0,
            used_ms: now_ms,
            moved_ms: now_ms,
            list: PROBATION,
            is_bound: true,
            before: NONE,
            after: NONE,
            session: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let turn = self.places[index as usize].turn.wrapping_add(1);
                self.places[index as usize] = SessionSlot { turn, ..place };
                index
            }
            None => {
                self.places.push(place);
                // The limit is below the largest number.
                (self.places.len() - 1) as u32
            }
        };
        self.by_key.insert(key, index);
        self.link(index, PROBATION);
        let token = self.token(index);
        self.places[index as usize].session = Some(make(token));
        token
    }

    /// Lets the next datagram of the client begin another session, while this one goes on.
    pub(super) fn unbind(&mut self, token: u64) {
        let index = token as u32;
        if self.get_mut(token).is_some()
            && std::mem::replace(&mut self.places[index as usize].is_bound, false)
        {
            self.by_key.remove(&self.places[index as usize].key);
        }
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, token: u64) -> Option<S> {
        self.get_mut(token)?;
        self.unbind(token);
        let index = token as u32;
        self.unlink(index);
        self.free.push(index);
        self.places[index as usize].session.take()
    }

    /// The tokens of the sessions for which `is_due` holds; it is given the session and its last use.
    pub(super) fn due(&self, mut is_due: impl FnMut(&S, u64) -> bool) -> Vec<u64> {
        let places = (0_u32..).zip(&self.places);
        let due = places.filter(|(_, place)| {
            place.session.as_ref().is_some_and(|session| is_due(session, place.used_ms))
        });
        due.map(|(index, _)| self.token(index)).collect()
    }

    fn token(&self, index: u32) -> u64 {
        u64::from(self.places[index as usize].turn) << 32 | u64::from(index)
    }

    fn unlink(&mut self, index: u32) {
        let (before, after, list) = {
            let place = &self.places[index as usize];
            (place.before, place.after, place.list)
        };
        match before {
            NONE => self.orders[list].first = after,
            before => self.places[before as usize].after = after,
        }
        match after {
            NONE => self.orders[list].last = before,
            after => self.places[after as usize].before = before,
        }
        self.orders[list].count -= 1;
    }

    fn link(&mut self, index: u32, list: usize) {
        let last = self.orders[list].last;
        let place = &mut self.places[index as usize];
        (place.before, place.after, place.list) = (last, NONE, list);
        match last {
            NONE => self.orders[list].first = index,
            last => self.places[last as usize].after = index,
        }
        self.orders[list].last = index;
        self.orders[list].count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u16) -> SessionKey {
        let client = SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 4_000));
        SessionKey { port: 1, client, local: IpAddr::from([127, 0, 0, 1]) }
    }

    /// Puts the session of `number` in as the engine does; the session that gave way.
    fn begin(table: &mut SessionTable<u16>, number: u16, now_ms: u64) -> Option<u16> {
        let gone = table.gives_way().and_then(|token| table.remove(token));
        table.insert(key(number), now_ms, |_| number);
        gone
    }

    #[test]
    fn session_is_found_by_its_client_and_address() {
        let mut table = SessionTable::new(4);
        begin(&mut table, 1, 0);
        let token = table.find(&key(1)).unwrap();
        assert_eq!(table.get_mut(token), Some(&mut 1));
        let others = [
            SessionKey { port: 2, ..key(1) },
            SessionKey { local: IpAddr::from([127, 0, 0, 2]), ..key(1) },
            key(2),
        ];
        assert!(others.iter().all(|other| table.find(other).is_none()));
    }

    #[test]
    fn longest_idle_session_gives_way() {
        let mut table = SessionTable::new(3);
        for number in 1..=3 {
            assert_eq!(begin(&mut table, number, u64::from(number)), None);
        }
        let token = table.find(&key(1)).unwrap();
        table.used(token, 1_000);
        assert_eq!(begin(&mut table, 4, 1_001), Some(2));
        assert_eq!(begin(&mut table, 5, 1_002), Some(3));
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn flood_of_new_clients_leaves_proven_sessions() {
        const LIMIT: usize = 64;
        let mut table = SessionTable::new(LIMIT);
        let real = (LIMIT - LIMIT / PROBATION_SHARE) as u16;
        for number in 0..real {
            begin(&mut table, number, 0);
            let token = table.find(&key(number)).unwrap();
            table.prove(token);
        }
        for number in 1_000..11_000 {
            begin(&mut table, number, 1);
            assert!(table.len() <= LIMIT);
        }
        assert!((0..real).all(|number| table.find(&key(number)).is_some()), "none of them gave way");
        assert!(table.places.len() <= LIMIT, "places are used again");
    }

    #[test]
    fn new_client_takes_the_place_of_an_idle_proven_one() {
        let mut table = SessionTable::new(8);
        for number in 0..8 {
            begin(&mut table, number, 0);
            let token = table.find(&key(number)).unwrap();
            table.prove(token);
        }
        assert_eq!(begin(&mut table, 9, 1), Some(0));
        assert_eq!(begin(&mut table, 10, 2), Some(9), "new ones take each other's place then");
    }

    #[test]
    fn lower_limit_ends_the_longest_idle_sessions() {
        let mut table = SessionTable::new(8);
        for number in 0..8 {
            begin(&mut table, number, u64::from(number));
        }
        assert_eq!(table.set_limit(5), [0, 1, 2]);
        assert_eq!((table.len(), begin(&mut table, 9, 9)), (5, Some(3)));
    }

    #[test]
    fn token_of_an_ended_session_finds_nothing() {
        let mut table = SessionTable::new(2);
        begin(&mut table, 1, 0);
        let token = table.find(&key(1)).unwrap();
        assert_eq!(table.remove(token), Some(1));
        assert_eq!((table.remove(token), table.len()), (None, 0));
        begin(&mut table, 2, 0);
        assert_eq!(table.find(&key(2)).map(|token| token as u32), Some(token as u32), "the same place");
        assert_eq!(table.get_mut(token), None);
        assert!(table.used(token, 5).is_none());
    }

    #[test]
    fn unbound_session_goes_on_beside_a_new_one() {
        let mut table = SessionTable::new(4);
        begin(&mut table, 1, 0);
        let old = table.find(&key(1)).unwrap();
        table.unbind(old);
        assert_eq!(table.find(&key(1)), None);
        begin(&mut table, 1, 0);
        let new = table.find(&key(1)).unwrap();
        assert_eq!(table.remove(old), Some(1));
        assert_eq!(table.find(&key(1)), Some(new), "the end of the old one leaves the new one");
    }

    #[test]
    fn idle_sessions_are_due() {
        let mut table = SessionTable::new(4);
        for number in 1..=3 {
            begin(&mut table, number, u64::from(number) * 100);
        }
        let due = table.due(|_, used_ms| used_ms <= 200);
        assert_eq!(due.iter().map(|token| table.remove(*token).unwrap()).collect::<Vec<_>>(), [1, 2]);
    }
}
