//! What clients know: which version of each row they tried to write, and which was acknowledged.

/// A row as it is in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Primary key.
    pub key: i32,
    /// Counts the writes to the row, from 1.
    pub version: i64,
    /// What [`content`] gives for the two.
    pub info: String,
}

/// The text that belongs to a version of a row: of various lengths, so that rows do not stay where they were, and
/// different throughout from that of another version.
pub(super) fn content(key: i32, version: i64) -> String {
    let mut state = (i64::from(key) << 32 ^ version) as u64;
    let length = 1 + next(&mut state) % 8;
    let mut text = format!("{key}:{version}");
    for _ in 0..length {
        text.push_str(&format!(":{:016x}", next(&mut state)));
    }
    text
}

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What is known of one row. Versions are 0 while there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Entry {
    acknowledged: i64,
    attempted: i64,
}

/// The rows of one client, which no other client writes.
#[derive(Debug, Clone)]
pub(super) struct ClientLedger {
    first: i32,
    step: i32,
    entries: Vec<Entry>,
    /// Rows of the transaction under way, as indexes.
    under_way: Vec<usize>,
}

impl ClientLedger {
    /// The ledger of client `number` of `clients`: of keys 1 to `rows`, each `clients`-th is its own.
    fn new(number: u32, clients: u32, rows: u64) -> Self {
        let own = (rows + u64::from(clients - 1 - number)) / u64::from(clients);
        Self {
            first: number as i32 + 1,
            step: clients as i32,
            entries: vec![Entry::default(); own as usize],
            under_way: Vec::new(),
        }
    }

    /// Number of its rows.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that the rows `indexes` are about to be written in one transaction; returns what to write.
    pub(super) fn attempt(&mut self, indexes: Vec<usize>) -> Vec<Row> {
        let rows = indexes
            .iter()
            .map(|&index| {
                let key = self.key(index);
                let entry = &mut self.entries[index];
                entry.attempted += 1;
                Row { key, version: entry.attempted, info: content(key, entry.attempted) }
            })
            .collect();
        self.under_way = indexes;
        rows
    }

    /// Notes that the server has acknowledged the transaction.
    pub(super) fn acknowledge(&mut self) {
        for index in self.under_way.drain(..) {
            let entry = &mut self.entries[index];
            entry.acknowledged = entry.attempted;
        }
    }

    fn key(&self, index: usize) -> i32 {
        self.first + self.step * index as i32
    }
}

/// What a comparison has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Rows that were compared: all that were ever attempted.
    pub compared: u64,
    /// Older than acknowledged, or missing.
    pub lost: u64,
    /// As no client has written them, or twice there.
    pub corrupt: u64,
    /// Rows of transactions that were under way and of which only a part is there.
    pub torn: u64,
}

/// The ledgers of all clients.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    clients: Vec<ClientLedger>,
}

impl Ledger {
    /// Nothing was written yet.
    pub(super) fn new(clients: u32, rows: u64) -> Self {
        Self { clients: (0..clients).map(|number| ClientLedger::new(number, clients, rows)).collect() }
    }

    /// Hands the ledgers to their clients; [`from_clients`](Self::from_clients) takes them back.
    pub(super) fn into_clients(self) -> Vec<ClientLedger> {
        self.clients
    }

    /// Takes the ledgers back, in the same order.
    pub(super) fn from_clients(clients: Vec<ClientLedger>) -> Self {
        Self { clients }
    }

    /// The first version of every second row of each client, to be loaded before the first crash. The others are for
    /// clients to insert.
    pub(super) fn first_rows(&mut self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .clients
            .iter_mut()
            .flat_map(|client| {
                let rows = client.attempt((0..client.len()).step_by(2).collect());
                client.acknowledge();
                rows
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.key);
        rows
    }

    /// Compares all `rows` of the table. From then on what is there counts as acknowledged: recovery has made it
    /// durable.
    pub(super) fn compare(&mut self, rows: &[Row]) -> Comparison {
        let mut result = Comparison::default();
        let mut stored: Vec<Vec<i64>> = self.clients.iter().map(|client| vec![0; client.len()]).collect();
        for row in rows {
            let place = usize::try_from(row.key - 1).ok().and_then(|number| {
                let client = number % self.clients.len();
                let version = stored[client].get_mut(number / self.clients.len())?;
                Some((client, version))
            });
            match place {
                Some((_, version)) if *version == 0 && row.version > 0 => {
                    *version = row.version;
                    if row.info != content(row.key, row.version) {
                        result.corrupt += 1;
                    }
                }
                _ => result.corrupt += 1,
            }
        }
        for (client, stored) in self.clients.iter_mut().zip(&stored) {
            let done =
                client.under_way.iter().filter(|&&index| stored[index] == client.entries[index].attempted).count();
            if done > 0 && done < client.under_way.len() {
                result.torn += client.under_way.len() as u64;
            }
            client.under_way.clear();
            for (entry, &version) in client.entries.iter_mut().zip(stored) {
                if entry.attempted == 0 && version == 0 {
                    continue;
                }
                result.compared += 1;
                if version < entry.acknowledged {
                    result.lost += 1;
                } else if version > entry.attempted {
                    result.corrupt += 1;
                }
                entry.acknowledged = version;
                entry.attempted = version;
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients with five rows; client 0 has keys 1, 3, 5, of which 1 and 5 are loaded, client 1 has 2 and 4.
    fn loaded() -> (Ledger, Vec<Row>) {
        let mut ledger = Ledger::new(2, 5);
        let rows = ledger.first_rows();
        (ledger, rows)
    }

    fn find(rows: &mut [Row], key: i32) -> &mut Row {
        rows.iter_mut().find(|row| row.key == key).unwrap()
    }

    /// Client 0 writes keys 1 and 3 in one transaction.
    fn write(ledger: &mut Ledger, acknowledged: bool) -> Vec<Row> {
        let rows = ledger.clients[0].attempt(vec![0, 1]);
        if acknowledged {
            ledger.clients[0].acknowledge();
        }
        rows
    }

    fn upsert(table: &mut Vec<Row>, rows: Vec<Row>) {
        for row in rows {
            table.retain(|old| old.key != row.key);
            table.push(row);
        }
    }

    const SOUND: Comparison = Comparison { compared: 0, lost: 0, corrupt: 0, torn: 0 };

    #[test]
    fn every_second_row_of_each_client_is_loaded() {
        let (mut ledger, rows) = loaded();
        let keys: Vec<i32> = rows.iter().map(|row| row.key).collect();
        assert_eq!(keys, [1, 2, 5]);
        assert_eq!(ledger.compare(&rows), Comparison { compared: 3, ..SOUND });
    }

    #[test]
    fn acknowledged_rows_must_be_there() {
        let (mut ledger, mut table) = loaded();
        let before = table.clone();
        let rows = write(&mut ledger, true);
        upsert(&mut table, rows);
        assert_eq!(ledger.clone().compare(&table).lost, 0);
        // One is older than acknowledged, one was never inserted.
        let result = ledger.compare(&before);
        assert_eq!((result.compared, result.lost), (4, 2));
    }

    #[test]
    fn a_transaction_under_way_may_be_there_or_not_but_whole() {
        let (mut ledger, before) = loaded();
        let rows = write(&mut ledger, false);
        let mut after = before.clone();
        upsert(&mut after, rows.clone());
        for table in [&before, &after] {
            let result = ledger.clone().compare(table);
            assert_eq!((result.lost, result.corrupt, result.torn), (0, 0, 0));
        }
        let mut half = before.clone();
        upsert(&mut half, rows[..1].to_vec());
        assert_eq!(ledger.compare(&half).torn, 2);
    }

    #[test]
    fn what_recovery_brought_is_acknowledged_from_then_on() {
        let (mut ledger, before) = loaded();
        let rows = write(&mut ledger, false);
        let mut after = before.clone();
        upsert(&mut after, rows);
        ledger.compare(&after);
        assert_eq!(ledger.compare(&before).lost, 2);
    }

    #[test]
    fn rows_that_nobody_wrote_are_corrupt() {
        let (ledger, table) = loaded();
        let damages: [fn(&mut Vec<Row>); 5] = [
            |table| find(table, 1).info.push('x'),
            |table| find(table, 1).info = content(1, 2),
            |table| *find(table, 1) = Row { key: 1, version: 2, info: content(1, 2) },
            |table| table.push(Row { key: 99, version: 1, info: content(99, 1) }),
            |table| {
                let row = find(table, 1).clone();
                table.push(row);
            },
        ];
        for damage in damages {
            let mut table = table.clone();
            damage(&mut table);
            assert_eq!(ledger.clone().compare(&table).corrupt, 1, "{table:?}");
        }
    }
}
