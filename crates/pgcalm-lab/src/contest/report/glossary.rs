//! What the words of the report mean.

/// Words that are not figures of the comparison; those are explained by [`crate::contest::report::metric`].
pub(super) static TERMS: [(&str, &str); 12] = [
    ("stock", "PostgreSQL with its default settings for writeback."),
    (
        "stock-tuned",
        "PostgreSQL with the best settings for writeback that it has itself; listed under \
         Contestants.",
    ),
    ("pg_calm", "PostgreSQL with the pg_calm module loaded; its settings are under Contestants."),
    (
        "stock-uncapped",
        "Stock with the caps of the data volume lifted: the rate that the WAL volume and the CPUs \
         allow, for reference.",
    ),
    (
        "cap",
        "A limit on operations or bytes per second, put on the device as a cloud volume or a \
         tenant's quota has it.",
    ),
    (
        "checkpoint",
        "PostgreSQL writes every changed page to the kernel, then asks for all of it to be on \
         disk, so that WAL before it can be recycled.",
    ),
    (
        "sync phase",
        "The end of a checkpoint: fsync of each file. What the kernel has not written by then is \
         written now, and others wait behind it.",
    ),
    (
        "Dirty",
        "Page cache that was changed and is not on disk yet. Counted in whole folios, so one 8 \
         KiB page can count as up to 2 MiB.",
    ),
    ("Writeback", "Page cache on its way to disk: given to the device or waiting in its queue."),
    (
        "blocked process",
        "One in uninterruptible sleep (state D): waiting for the device or for a lock in the \
         kernel, not to be cancelled meanwhile.",
    ),
    ("TPS", "Transactions ended per second."),
    ("p50, p99", "50 or 99 of 100 values are not higher than this."),
];
