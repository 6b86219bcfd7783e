use super::*;
use crate::limits::Burst;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn gp3() -> Limits {
    Limits {
        operations: Allowance::shared(Rate::of(3000)),
        bytes: Allowance::shared(Rate::of(125 << 20)),
        io_size: Some(256 << 10),
        latency: Duration::from_micros(500),
        depth: 128,
    }
}

/// What a client with `depth` requests on their way gets done in `seconds`, as (operations, bytes) of reads and writes. It
/// takes 50 µs from an answer to the next request.
fn closed_loop(
    limiter: &mut Limiter,
    depth: usize,
    seconds: u64,
    next: impl Fn(u64) -> (Direction, u64),
) -> [(u64, u64); 2] {
    let mut done = [(0, 0); 2];
    let mut arrivals: BinaryHeap<Reverse<u64>> = (0..depth).map(|_| Reverse(0)).collect();
    let mut number = 0;
    while let Some(Reverse(now)) = arrivals.pop() {
        let (direction, bytes) = next(number);
        number += 1;
        let admission = limiter.admit(now, direction, bytes);
        if admission.due > seconds * S {
            continue;
        }
        let sum = &mut done[direction as usize];
        sum.0 += admission.operations;
        sum.1 += bytes;
        arrivals.push(Reverse(admission.due + 50_000));
    }
    done
}

fn within(value: u64, wanted: u64) -> bool {
    value.abs_diff(wanted) * 100 <= wanted * 3
}

#[test]
fn an_idle_volume_takes_its_latency() {
    let mut limiter = Limiter::new(gp3(), 0);
    let admission = limiter.admit(10 * MS, Direction::Read, 8192);
    assert_eq!(admission.due, 10 * MS + 500_000);
    assert_eq!(admission.throttled, Duration::ZERO);
}

#[test]
fn small_requests_get_the_operations_and_large_ones_the_bytes() {
    for direction in [Direction::Read, Direction::Write] {
        let small = closed_loop(&mut Limiter::new(gp3(), 0), 32, 10, |_| (direction, 8192));
        assert!(within(small[direction as usize].0, 30_000), "{small:?}");
        let large = closed_loop(&mut Limiter::new(gp3(), 0), 1, 10, |_| (direction, 1 << 20));
        assert!(within(large[direction as usize].1, 1250 << 20), "{large:?}");
    }
}

#[test]
fn reads_and_writes_share_what_is_shared_and_have_what_is_theirs() {
    let mixed = |number| {
        if number % 2 == 0 { (Direction::Read, 8192) } else { (Direction::Write, 8192) }
    };
    let [read, write] = closed_loop(&mut Limiter::new(gp3(), 0), 32, 10, mixed);
    assert!(within(read.0 + write.0, 30_000), "{read:?} {write:?}");

    let mut separate = gp3();
    separate.operations = Allowance::each(Rate::of(3000));
    let [read, write] = closed_loop(&mut Limiter::new(separate, 0), 32, 10, mixed);
    assert!(within(read.0, 30_000), "{read:?}");
    assert!(within(write.0, 30_000), "{write:?}");
}

#[test]
fn a_large_request_counts_as_the_provider_counts() {
    let mut limiter = Limiter::new(gp3(), 0);
    for (bytes, operations) in [(512, 1), (256 << 10, 1), ((256 << 10) + 512, 2), (1 << 20, 4)] {
        let admission = limiter.admit(0, Direction::Write, bytes);
        assert_eq!(admission.operations, operations, "{bytes}");
    }
}

#[test]
fn no_more_are_at_work_than_the_queue_is_deep() {
    let mut limits = gp3();
    limits.operations = Allowance::default();
    limits.bytes = Allowance::default();
    limits.depth = 4;
    // Of an endless supply four at a time are done in each half of a millisecond.
    let mut limiter = Limiter::new(limits, 0);
    let dues: Vec<u64> = (0..12).map(|_| limiter.admit(0, Direction::Read, 4096).due).collect();
    assert_eq!(dues[3], 500_000);
    assert_eq!(dues[4], 1_000_000);
    assert_eq!(dues[11], 1_500_000);
}

#[test]
fn an_idle_minute_is_not_made_up_for() {
    let mut limiter = Limiter::new(gp3(), 0);
    limiter.admit(0, Direction::Write, 8192);
    let last = (0..3000).map(|_| limiter.admit(60 * S, Direction::Write, 8192).due).max().unwrap();
    assert!(last >= 61 * S - SLACK - MS, "{last}");
}

#[test]
fn credits_are_spent_at_the_burst_rate_and_then_the_sustained_one_holds() {
    let mut limits = gp3();
    limits.bytes = Allowance::default();
    limits.operations = Allowance::shared(Rate {
        sustained: 300,
        burst: Some(Burst { rate: 3000, capacity: 27_000, initial: 27_000 }),
    });
    // 27,000 credits, of which 2,700 are lost per second.
    let mut limiter = Limiter::new(limits, 0);
    let burst = closed_loop(&mut limiter, 32, 10, |_| (Direction::Write, 8192));
    assert!(within(burst[1].0, 30_000), "{burst:?}");
    let mut limiter = Limiter::new(limits, 0);
    let longer = closed_loop(&mut limiter, 32, 30, |_| (Direction::Write, 8192));
    assert!(within(longer[1].0, 36_000), "{longer:?}");
    // Ten idle seconds save 3,000 again.
    let begin = 40 * S;
    let due = (0..3000).map(|_| limiter.admit(begin, Direction::Write, 8192).due).max().unwrap();
    assert!(due < begin + 3 * S / 2, "{}", due - begin);
}

#[test]
fn the_classes_of_no_provider_deliver_what_they_say_to_reads_and_writes_together() {
    let turns = |number| match number % 2 {
        0 => Direction::Read,
        _ => Direction::Write,
    };
    for (name, operations, bytes) in [("small", 500, 60 << 20), ("fast", 16_000, 500 << 20)] {
        let limits = name.parse::<crate::Volume>().unwrap().limits();
        let [read, write] = closed_loop(&mut Limiter::new(limits, 0), 64, 10, |n| (turns(n), 8192));
        assert!(within(read.0 + write.0, operations * 10), "{name}: {read:?}");
        assert!(within(read.0, operations * 5), "{name}: {read:?}");
        let [read, write] = closed_loop(&mut Limiter::new(limits, 0), 64, 10, |n| (turns(n), 1 << 20));
        assert!(within(read.1 + write.1, bytes * 10), "{name}: {read:?}");
    }
}
