/*-------------------------------------------------------------------------
 *
 * guard_hold.c
 *	  Where sessions wait for the guard.
 *
 * A session pays for the WAL that it has written when its transaction is over:
 * in the last callback of CommitTransaction's ResourceOwnerRelease, when the
 * transaction is visible to all, its locks are released and its buffer pins
 * gone.  Nobody can wait for it there, and what it wrote is known exactly,
 * whether by a short statement, COPY or a procedure.  It is a wait in which
 * interrupts are held off, since the commit can't be undone: it ends as soon as
 * one is pending (cancel, terminate, a barrier) or statement_timeout is over.
 * What is not paid then is left as a debt.
 *
 * A statement that begins to write waits as well, if its session has a debt,
 * or if the gate is closed: if it is not nested in another, its transaction has
 * no transaction ID yet, and the session has no heavyweight locks but those of
 * the fast path (lock.c), which are the weak ones on relations that readers and
 * writers do not notice.  Whoever wants a strong one, as ALTER TABLE, moves those
 * to the lock table and queues, and all others behind it: then the wait is given
 * up.  There an interrupt is answered as anywhere.
 *
 * Who can't be held, since its transaction has written or it runs in a function, would fill the
 * filesystem of pg_wal in one transaction: its next statement fails where all others' do, or as
 * soon as half of the reserve is used.
 *
 * A transaction that drops files or notifies somebody does so after that callback
 * (CommitTransaction, smgrDoPendingDeletes and AtCommit_Notify), so it is not held.
 *
 * A transaction's cost is the WAL it wrote, less full-page images.  Images come
 * with the first changes after a checkpoint began: by them alone, a rate in bytes
 * of WAL would let twice as many transactions pass at the end of a checkpoint's
 * cycle as at its begin, and none would be to blame.  How much WAL a cost stands
 * for is seen by the guard's worker.
 *
 * Who waits takes a ticket in a line that is served at the rate the guard
 * allows.  Large debts are paid in slices, so that a session which loaded a
 * gigabyte does not keep the others waiting until it has paid, and for no longer than the
 * patience.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "base/base.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "guard.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* Longest sleep between looks */
#define NAP_MS 100

/* A slice of debt in seconds of the whole rate, and least of it */
#define SLICE_SECONDS 0.1
#define SLICE_COST 8192

/* What a record of WAL costs at least, in bytes: about that of a small change */
#define RECORD_COST 100

/* What was not used of the rate is kept for so many seconds */
#define BURST_SECONDS 0.1

/* Who can't be held is refused when less than this part of the reserve for WAL is left */
#define RESERVE_LEFT 0.5

typedef struct GuardTicket
{
	bool taken;
	double cost;
	double number; /* position in the line, in cost */
	uint32 line;
} GuardTicket;

static ExecutorStart_hook_type previous_executor_start = NULL;
static ExecutorRun_hook_type previous_executor_run = NULL;
static ProcessUtility_hook_type previous_process_utility = NULL;

static int nesting = 0;         /* of statements */
static bool may_hold = false;   /* this transaction, when it is over */
static bool must_go_on = false; /* it frees space, or others wait for its next step */
static bool freeing = false;    /* such a command is under way, in this transaction and the next */
static double debt = 0;         /* cost of WAL written and not waited for */
static WalUsage wal_seen;       /* of pgWalUsage */
static GuardTicket waiting;     /* for release_hold */

static GuardGate gate_now(void);
static bool has_locks(void);
static bool serve(GuardTicket *ticket, GuardInput *input, long *nap_ms);
static void refund(const GuardTicket *ticket);
static void hold_begins(GuardInput input, bool committed);
static void hold_ends(void);
static void release_hold(int code, Datum argument);
static void count_wal(bool pays);
static bool interrupted(void);
static bool nap(bool committed, long nap_ms);
static bool wait_turn(bool committed, GuardTicket *ticket, uint64 until_ms);
static void hold(bool committed);
static void consider(void);
static bool is_refused(bool waited);
static void before_statement(void);
static bool notifies(void);
static void at_commit(XactEvent event, void *argument);
static void after_transaction(ResourceReleasePhase phase, bool committed, bool top, void *argument);
static bool writes(const QueryDesc *query);
static bool rewrites(const VacuumStmt *vacuum);
static bool frees_space(const Node *command);
static bool writes_much(const Node *command);
static void executor_start(QueryDesc *query, int flags);
static void executor_run(CALM_EXECUTOR_RUN_ARGS);
static void process_utility(PlannedStmt *statement, const char *text, bool read_only_tree,
                            ProcessUtilityContext context, ParamListInfo parameters,
                            QueryEnvironment *environment, DestReceiver *destination,
                            QueryCompletion *completion);

void
guard_hold_install(void)
{
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(at_commit, NULL);
	RegisterResourceReleaseCallback(after_transaction, NULL);
}

/* Whether it would have sessions held, and is gone or stuck */
bool
guard_is_silent(void)
{
	return pg_atomic_read_u32(&guard_shared->gate) != GUARD_GATE_OPEN &&
	       monotonic_ms() > pg_atomic_read_u64(&guard_shared->updated_ms) + GUARD_SILENT_MS;
}

/* Never closed by a guard that is gone, or stuck */
static GuardGate
gate_now(void)
{
	if (guard_is_silent())
		return GUARD_GATE_OPEN;
	return (GuardGate) pg_atomic_read_u32(&guard_shared->gate);
}

/*
 * Whether there are locks that others may wait for.  A look without the partitions'
 * locks: others may move those of the fast path here (FastPathTransferRelationLocks).
 */
static bool
has_locks(void)
{
	for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
	{
		if (CALM_HAS_LOCKS(MyProc, i))
			return true;
	}
	return false;
}

/*
 * Take a ticket, for no more than a slice of the cost asked for, unless it has
 * been taken.  True if it has been served; else when to look again.
 */
static bool
serve(GuardTicket *ticket, GuardInput *input, long *nap_ms)
{
	GuardShared *shared = guard_shared;
	uint64 now_ms = monotonic_ms();
	double served;
	double wait_ms;
	bool done;

	SpinLockAcquire(&shared->lock);
	served = shared->served;
	if (now_ms > shared->served_at_ms)
		served += shared->paced_rate * (double) (now_ms - shared->served_at_ms) / 1000;
	if (!ticket->taken)
	{
		ticket->cost = Min(ticket->cost, Max(shared->paced_rate * SLICE_SECONDS, SLICE_COST));
		shared->issued =
			Max(shared->issued, served - shared->paced_rate * BURST_SECONDS) + ticket->cost;
		ticket->number = shared->issued;
		ticket->line = shared->line;
		ticket->taken = true;
	}
	*input = shared->binding;
	done = ticket->number <= served || ticket->line != shared->line;
	wait_ms =
		shared->paced_rate > 0 ? (ticket->number - served) * 1000 / shared->paced_rate : NAP_MS;
	SpinLockRelease(&shared->lock);
	*nap_ms = (long) Min(Max(wait_ms, 1), NAP_MS);
	return done;
}

/* Who leaves the line unserved makes place for those who come later */
static void
refund(const GuardTicket *ticket)
{
	GuardShared *shared = guard_shared;

	SpinLockAcquire(&shared->lock);
	if (ticket->taken && ticket->line == shared->line)
		shared->issued = Max(shared->issued - ticket->cost, 0);
	SpinLockRelease(&shared->lock);
}

static void
hold_begins(GuardInput input, bool committed)
{
	GuardShared *shared = guard_shared;
	GuardHold *hold = &shared->holds[MyProc - ProcGlobal->allProcs];
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->lock);
	hold->pid = MyProcPid;
	hold->input = input;
	hold->committed = committed;
	hold->since = now;
	shared->readings[input].holds++;
	SpinLockRelease(&shared->lock);
}

static void
hold_ends(void)
{
	GuardShared *shared = guard_shared;
	GuardHold *hold = &shared->holds[MyProc - ProcGlobal->allProcs];
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->lock);
	if (hold->pid == MyProcPid)
	{
		shared->readings[hold->input].held_us += Max(now - hold->since, 0);
		hold->pid = 0;
	}
	SpinLockRelease(&shared->lock);
}

/* For the end of a wait by an error, the end of the session included */
static void
release_hold(int code, Datum argument)
{
	hold_ends();
	refund(&waiting);
}

/* What the transaction that is over has written becomes a debt, if it is one that pays */
static void
count_wal(bool pays)
{
	uint64 written = pgWalUsage.wal_bytes - wal_seen.wal_bytes;
	double records = (double) (pgWalUsage.wal_records - wal_seen.wal_records);
	double images = (double) (pgWalUsage.wal_fpi - wal_seen.wal_fpi);
	double cost;

	if (written == 0)
		return;
	wal_seen = pgWalUsage;
	if (!pays)
		return;
	/* images are of less than a block, if it has a hole or is compressed */
	cost = Max((double) written - images * BLCKSZ, records * RECORD_COST);
	(void) pg_atomic_fetch_add_u64(&guard_shared->charged, (int64) written);
	(void) pg_atomic_fetch_add_u64(&guard_shared->charged_cost, (int64) cost);
	debt = gate_now() == GUARD_GATE_OPEN ? 0 : debt + cost;
}

/* After a commit: whether there is something to be done that can't be done here */
static bool
interrupted(void)
{
	return InterruptPending ||
	       (StatementTimeout > 0 &&
	        GetCurrentTimestamp() >=
	            TimestampTzPlusMilliseconds(GetCurrentStatementStartTimestamp(), StatementTimeout));
}

/*
 * Sleep until a ticket may have been served.  False if the wait has to end:
 * after a commit by anything that is pending, before a statement by the error that is
 * raised for it, or because others wait for a lock.
 */
static bool
nap(bool committed, long nap_ms)
{
	int events;

	if (committed && interrupted())
		return false;
	events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, nap_ms,
	                   guard_shared->hold_wait_event);
	if (events & WL_POSTMASTER_DEATH)
	{
		/* as SyncRepWaitForLSN does */
		ProcDiePending = true;
		InterruptPending = true;
	}
	ResetLatch(MyLatch);
	if (committed)
		return true;
	CHECK_FOR_INTERRUPTS();
	return !has_locks();
}

/*
 * Until a ticket is served or its time is over, or without one the gate opens; false if that was
 * given up.  Who is refused his next statement waits with what he has committed: it may have been
 * no statement, as with large objects, and then nothing else slows him down.
 */
static bool
wait_turn(bool committed, GuardTicket *ticket, uint64 until_ms)
{
	for (;;)
	{
		GuardGate gate = gate_now();
		GuardInput input;
		long nap_ms = NAP_MS;

		/* shadow may have been set meanwhile */
		if (gate == GUARD_GATE_OPEN || guard_shared->shadow)
			return true;
		if (gate == GUARD_GATE_REFUSE && !committed)
			return false;
		if (ticket != NULL && monotonic_ms() >= until_ms)
		{
			refund(ticket);
			ticket->taken = false;
			return true;
		}
		if (ticket ? serve(ticket, &input, &nap_ms) : gate == GUARD_GATE_PACED)
			return true;
		if (!nap(committed, nap_ms))
			return false;
	}
}

/*
 * Wait until the debt is paid, and before a statement until the gate is open.
 * After a commit that may be given up, which leaves a debt.
 */
static void
hold(bool committed)
{
	GuardInput input = guard_shared->binding;
	uint64 until_ms = monotonic_ms() + guard_patience;
	long nap_ms;

	memset(&waiting, 0, sizeof(waiting));
	waiting.cost = debt;
	while (debt > 0 && serve(&waiting, &input, &nap_ms))
	{
		debt = Max(debt - waiting.cost, 0);
		memset(&waiting, 0, sizeof(waiting));
		waiting.cost = debt;
	}
	if (debt <= 0 && (committed || gate_now() <= GUARD_GATE_PACED))
		return;

	hold_begins(input, committed);
	if (guard_shared->shadow)
	{
		debt = 0;
		release_hold(0, (Datum) 0);
		return;
	}
	PG_ENSURE_ERROR_CLEANUP(release_hold, (Datum) 0);
	{
		bool turn = true;

		while (debt > 0 && (turn = wait_turn(committed, &waiting, until_ms)))
		{
			/* who has paid for so long is let off, at whatever rate: others wait for his answer */
			debt = gate_now() == GUARD_GATE_OPEN || guard_shared->shadow ||
			               monotonic_ms() >= until_ms ?
			           0 :
			           Max(debt - waiting.cost, 0);
			memset(&waiting, 0, sizeof(waiting));
			waiting.cost = debt;
		}
		if (turn && !committed)
			(void) wait_turn(committed, NULL, 0);
	}
	PG_END_ENSURE_ERROR_CLEANUP(release_hold, (Datum) 0);
	release_hold(0, (Datum) 0);
	/* it may have been set for something other than us */
	SetLatch(MyLatch);
}

/*
 * With the gate not open: whether the transaction may be held
 * when it is over.  What can fail is done here, since there it must not.  Whose function this
 * is in, or whose foreign key, makes no difference.
 */
static void
consider(void)
{
	may_hold = MyBackendType == B_BACKEND && !IsParallelWorker() && guard_holds_session &&
	           !(guard_exempt_superusers && superuser_arg(GetOuterUserId()));
}

/*
 * Whether a statement that is about to write has to fail, as the server would end with it.  A
 * transaction that frees space goes on longer, but what it freed may be on another filesystem.
 */
static bool
is_refused(bool waited)
{
	GuardGate gate = gate_now();
	const GuardReading *space = &guard_shared->readings[GUARD_WAL_SPACE];
	double left;

	if (freeing || guard_shared->shadow || gate < GUARD_GATE_CLOSED)
		return false;
	SpinLockAcquire(&guard_shared->lock);
	left = space->limit > 0 ? space->value / space->limit : 1;
	SpinLockRelease(&guard_shared->lock);
	if (must_go_on)
		return left < RESERVE_LEFT / 2;
	return gate == GUARD_GATE_REFUSE || (left < RESERVE_LEFT && !waited);
}

/*
 * A statement is about to write, or may be: see whether it has to wait, which one that is nested
 * in another never does, and whether its transaction has to when it is over.
 */
static void
before_statement(void)
{
	bool waits = nesting == 0 && !TransactionIdIsValid(GetTopTransactionIdIfAny());

	if (gate_now() == GUARD_GATE_OPEN)
		return;
	consider();
	if (!may_hold)
		return;
	waits = waits && !has_locks();
	if (waits)
		hold(false);
	if (is_refused(waits))
	{
		char object[NAMEDATALEN];

		SpinLockAcquire(&guard_shared->lock);
		memcpy(object, guard_shared->readings[GUARD_WAL_SPACE].object, sizeof(object));
		SpinLockRelease(&guard_shared->lock);
		ereport(
			ERROR,
			(errcode(ERRCODE_DISK_FULL), errmsg("pg_calm_guard: no space is left for WAL"),
		     errdetail(
				 "The guard waited for \"%s\" to free some. Written on, the server would end with a PANIC.",
				 object),
		     errhint(
				 "Free space in the filesystem of pg_wal, or see to \"%s\". The space to be left free is pg_calm_guard.wal_space.",
				 object)));
	}
}

/* Whether the transaction has notified somebody: its lock, in async.c, PreCommit_Notify */
static bool
notifies(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	return CALM_HOLDS_LOCK(&tag, AccessExclusiveLock);
}

/* Before it is seen to be committed: whether more than that comes after it */
static void
at_commit(XactEvent event, void *argument)
{
	CalmRelationId *files;

	/* what was no statement of its own, as with large objects, or began before the gate closed */
	if (event == XACT_EVENT_PRE_COMMIT && gate_now() != GUARD_GATE_OPEN &&
	    TransactionIdIsValid(GetTopTransactionIdIfAny()))
		consider();
	if (!may_hold || must_go_on)
		return;
	if (event == XACT_EVENT_PRE_COMMIT)
		/* files of ON COMMIT DROP are pending only after this callback */
		must_go_on = smgrGetPendingDeletes(true, &files) > 0 ||
		             (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) != 0;
	else if (event == XACT_EVENT_COMMIT)
		must_go_on = notifies();
}

/* At the end of a transaction, when its locks are released */
static void
after_transaction(ResourceReleasePhase phase, bool committed, bool top, void *argument)
{
	bool pays;

	/* it is called for owners below as well, as of the portal of a CALL, and before that of the transaction */
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !top || MyBackendType != B_BACKEND ||
	    CurrentResourceOwner != TopTransactionResourceOwner || IsParallelWorker() ||
	    guard_shared == NULL)
		return;
	/* without a transaction ID it wrote hint bits and the like, if anything: a reader */
	pays = may_hold && !freeing && TransactionIdIsValid(GetTopTransactionIdIfAny());
	count_wal(pays);
	if (pays && committed && !must_go_on && debt > 0 && gate_now() != GUARD_GATE_OPEN &&
	    !has_locks())
		hold(true);
	/* a procedure goes on with another transaction */
	if (nesting == 0)
		may_hold = false;
	/* so does VACUUM */
	must_go_on = freeing;
}

/* Whether a query writes by itself; functions that do are paid for when they are over */
static bool
writes(const QueryDesc *query)
{
	return query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE ||
	       query->plannedstmt->rowMarks != NIL;
}

static void
executor_start(QueryDesc *query, int flags)
{
	if ((flags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
	{
		if (writes(query))
			before_statement();
		else if (nesting == 0 && gate_now() != GUARD_GATE_OPEN)
			consider();
	}
	if (previous_executor_start)
		previous_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

static void
executor_run(CALM_EXECUTOR_RUN_ARGS)
{
	nesting++;
	PG_TRY();
	{
		if (previous_executor_run)
			previous_executor_run(CALM_EXECUTOR_RUN_PASS);
		else
			standard_ExecutorRun(CALM_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		nesting = Max(nesting - 1, 0);
	}
	PG_END_TRY();
}

/* Whether it is VACUUM FULL: that writes the table anew, and all of it as WAL */
static bool
rewrites(const VacuumStmt *vacuum)
{
	bool full = false;
	ListCell *cell;

	foreach (cell, vacuum->options)
	{
		DefElem *option = lfirst(cell);

		if (strcmp(option->defname, "full") == 0)
			full = defGetBoolean(option);
	}
	return full;
}

/*
 * Whether a command frees space, or others wait for the next step of its
 * session: these are never held, nor are their transactions when they are over.
 */
static bool
frees_space(const Node *command)
{
	switch (nodeTag(command))
	{
		case T_VacuumStmt:
			return !rewrites((const VacuumStmt *) command);
		case T_DropStmt:
		case T_TruncateStmt:
		case T_DropdbStmt:
		case T_DropTableSpaceStmt:
		case T_DropOwnedStmt:
		case T_DropSubscriptionStmt:
		case T_CheckPointStmt:
			return true;
		case T_TransactionStmt:
			/* a prepared transaction keeps its locks until it is finished */
			return ((const TransactionStmt *) command)->kind == TRANS_STMT_PREPARE;
		default:
			return false;
	}
}

/* Whether a command writes data, and can wait before it has a lock */
static bool
writes_much(const Node *command)
{
	switch (nodeTag(command))
	{
		case T_CopyStmt:
			return ((const CopyStmt *) command)->is_from;
		case T_VacuumStmt: /* unless it frees space */
		case T_CreateTableAsStmt:
		case T_RefreshMatViewStmt:
		case T_IndexStmt:
		case T_ReindexStmt:
		case CALM_CLUSTER_STATEMENT:
		case T_AlterTableStmt:
		case T_AlterTableMoveAllStmt:
		case T_CreatedbStmt:
		case T_CallStmt:
		case T_DoStmt:
			return true;
		default:
			return false;
	}
}

static void
process_utility(PlannedStmt *statement, const char *text, bool read_only_tree,
                ProcessUtilityContext context, ParamListInfo parameters,
                QueryEnvironment *environment, DestReceiver *destination,
                QueryCompletion *completion)
{
	/* EXECUTE begins a statement like that which it stands for */
	bool nests = !IsA(statement->utilityStmt, ExecuteStmt);
	bool was_freeing = freeing;

	if (frees_space(statement->utilityStmt))
		must_go_on = freeing = true;
	/* a part of another command was asked for with that */
	else if (context != PROCESS_UTILITY_SUBCOMMAND && writes_much(statement->utilityStmt))
		before_statement();

	nesting += nests ? 1 : 0;
	PG_TRY();
	{
		if (previous_process_utility)
			previous_process_utility(statement, text, read_only_tree, context, parameters,
			                         environment, destination, completion);
		else
			standard_ProcessUtility(statement, text, read_only_tree, context, parameters,
			                        environment, destination, completion);
	}
	PG_FINALLY();
	{
		nesting = Max(nesting - (nests ? 1 : 0), 0);
		freeing = was_freeing;
	}
	PG_END_TRY();
}
