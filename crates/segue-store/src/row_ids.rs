//! Opaque IDs of rows.
//!
//! A store numbers its turns and legs in the order in which they are written. Such a number would show users and
//! programs how much a store contains, and would invite them to count and to compare. A store therefore encrypts it
//! with its own key before it leaves the store. Nothing but the key is stored for this, the rows stay in the order in
//! which they are written, and rows of earlier formats have IDs too.

use segue_core::id::{LegId, TurnId};

/// Conversion between row numbers and opaque IDs with the key of a store.
#[derive(Debug, Clone)]
pub struct RowIds {
    turns: BlockCipher,
    legs: BlockCipher,
    cursors: BlockCipher,
}

impl RowIds {
    /// Creates the conversion from the key of a store, which is random and never changes.
    #[must_use]
    pub fn new(key: [u64; 2]) -> Self {
        Self {
            turns: BlockCipher::new(key, 1),
            legs: BlockCipher::new(key, 2),
            cursors: BlockCipher::new(key, 3),
        }
    }

    /// Returns the ID of the turn in a row.
    #[must_use]
    pub fn turn_id(&self, row: i64) -> TurnId {
        TurnId::from_bits(self.turns.encrypt(row.cast_unsigned()))
    }

    /// Returns the row of a turn. An ID of another store leads to a row that does not exist.
    #[must_use]
    pub fn turn_row(&self, id: TurnId) -> i64 {
        self.turns.decrypt(id.to_bits()).cast_signed()
    }

    /// Returns the ID of the leg in a row.
    #[must_use]
    pub fn leg_id(&self, row: i64) -> LegId {
        LegId::from_bits(self.legs.encrypt(row.cast_unsigned()))
    }

    /// Returns the row of a leg. An ID of another store leads to a row that does not exist.
    #[must_use]
    pub fn leg_row(&self, id: LegId) -> i64 {
        self.legs.decrypt(id.to_bits()).cast_signed()
    }
}

/// Encryption of the cursors of the change feed.
impl RowIds {
    pub(crate) fn encrypt_cursor(&self, block: u64) -> u64 {
        self.cursors.encrypt(block)
    }

    pub(crate) fn decrypt_cursor(&self, block: u64) -> u64 {
        self.cursors.decrypt(block)
    }
}

/// Number of rounds of Speck with a block of 64 bits and a key of 128 bits.
const SPECK_ROUNDS: usize = 27;

/// Speck64/128, a block cipher of a few lines whose block has the size of an ID.
#[derive(Debug, Clone)]
struct BlockCipher {
    round_keys: [u32; SPECK_ROUNDS],
}

impl BlockCipher {
    /// Creates the cipher for one kind of row, so that two kinds never share an ID by their numbers.
    fn new(key: [u64; 2], kind: u64) -> Self {
        let [first, second] = key;
        let (l2, l1) = split_block(first);
        let (l0, k0) = split_block(second ^ kind);
        Self::from_words([k0, l0, l1, l2])
    }

    fn from_words([first, l0, l1, l2]: [u32; 4]) -> Self {
        let mut round_keys = [0; SPECK_ROUNDS];
        let (mut key, mut queue) = (first, [l0, l1, l2]);
        for (round, round_key) in (0..).zip(&mut round_keys) {
            *round_key = key;
            let [next, second, third] = queue;
            let mixed;
            (mixed, key) = mix(next, key, round);
            queue = [second, third, mixed];
        }
        Self { round_keys }
    }

    fn encrypt(&self, block: u64) -> u64 {
        let (mut x, mut y) = split_block(block);
        for key in self.round_keys {
            (x, y) = mix(x, y, key);
        }
        join_block(x, y)
    }

    fn decrypt(&self, block: u64) -> u64 {
        let (mut x, mut y) = split_block(block);
        for key in self.round_keys.into_iter().rev() {
            y = (y ^ x).rotate_right(3);
            x = (x ^ key).wrapping_sub(y).rotate_left(8);
        }
        join_block(x, y)
    }
}

fn mix(x: u32, y: u32, key: u32) -> (u32, u32) {
    let x = x.rotate_right(8).wrapping_add(y) ^ key;
    (x, y.rotate_left(3) ^ x)
}

/// Returns the upper and the lower half of a block.
fn split_block(block: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
    (half(block >> 32), half(block))
}

fn join_block(upper: u32, lower: u32) -> u64 {
    (u64::from(upper) << 32) | u64::from(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_matches_the_published_test_vector() {
        let cipher = BlockCipher::from_words([0x0302_0100, 0x0b0a_0908, 0x1312_1110, 0x1b1a_1918]);
        let (plain, encrypted) = (0x3b72_6574_7475_432d, 0x8c6f_a548_454e_028b);
        assert_eq!(cipher.encrypt(plain), encrypted);
        assert_eq!(cipher.decrypt(encrypted), plain);
    }

    #[test]
    fn an_id_belongs_to_one_kind_and_one_store() {
        let (ids, other_store) = (RowIds::new([1, 2]), RowIds::new([1, 3]));
        for row in [1, 2, 3, i64::MAX] {
            let (turn, leg) = (ids.turn_id(row), ids.leg_id(row));
            assert_eq!((ids.turn_row(turn), ids.leg_row(leg)), (row, row));
            assert_ne!(turn.to_bits(), leg.to_bits());
            assert_ne!(ids.turn_row(TurnId::from_bits(leg.to_bits())), row);
            assert_ne!(other_store.turn_row(turn), row);
        }
    }
}
