//! How many transactions the journal of an ext4 file system has committed: /proc/fs/jbd2 (fs/jbd2/journal.c,
//! `jbd2_seq_info_show`).

use crate::{Error, HostRoot, Result};

/// Transactions committed since the file system on device `name` was mounted; `None` if it has no such journal.
pub fn read(root: &HostRoot, name: &str) -> Result<Option<u64>> {
    // The number after the dash is the inode of the journal.
    let prefix = format!("{name}-");
    let directory = match root.list("proc/fs/jbd2") {
        Ok(names) => names,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(journal) = directory.iter().find(|entry| entry.starts_with(&prefix)) else { return Ok(None) };
    let path = format!("proc/fs/jbd2/{journal}/info");
    let text = root.read(&path)?;
    // 8867 transactions (8867 requested), each up to 5461 blocks
    match text.split_whitespace().next().map(str::parse) {
        Some(Ok(count)) => Ok(Some(count)),
        _ => Err(Error::Format { path: root.path(&path), expected: "a number of transactions", found: text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn the_journal_of_the_device_is_read_and_no_other() {
        let root = FakeHost::default();
        assert_eq!(read(&root, "loop1").unwrap(), None);
        for (journal, count) in [("loop1-8", 42), ("loop11-8", 7)] {
            let text = format!("{count} transactions (40 requested), each up to 5461 blocks\n");
            root.put(format!("proc/fs/jbd2/{journal}/info"), &text);
        }
        assert_eq!(read(&root, "loop1").unwrap(), Some(42));
        assert_eq!(read(&root, "loop2").unwrap(), None);
    }
}
