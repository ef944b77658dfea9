"""What goes on beside the event loop: group commit, checkpoints, cleaning.

**Group commit.** One thread syncs the log. Whoever waits is covered by the next sync; the next begins when the last has
ended, with no linger, so that a sync covers as many as came in meanwhile. It tells the loop by `call_soon_threadsafe`
and does not wait for it.

It goes from sync to sync without the interpreter's lock, sleeps without it while nobody waits (`syncing`), and rings a
bell after each sync.

**Zeros ahead.** Another thread writes zeros ahead of the log's end, which makes syncs nearly twice as fast.

A failed sync ends the thread: the log is read-only from then on.
"""

import asyncio
import os
import threading
from contextlib import suppress
from queue import SimpleQueue

from penstock import logs
from penstock.clock import Clock
from penstock.config import StoreConfig
from penstock.errors import StoreError
from penstock.model import Durability
from penstock.store.commit import Then
from penstock.store.directory import Pending
from penstock.store.store import Store
from penstock.turn import Turn

log = logs.get(__name__)

_TICK_S, _FAULT_PAUSE_S = 0.25, 10
_RINGS_BYTES = 65_536  # as many as a pipe holds


class Filler:
    """The thread that writes zeros ahead."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-fill", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        if self._calls.empty():
            self._calls.put(True)

    def stop(self) -> None:
        self._calls.put(False)
        self._thread.join()

    def _run(self) -> None:
        while self._calls.get():
            try:
                while self._calls.empty() and self._store.fill():
                    pass
            except OSError as error:  # zeros are a convenience: the disk may be full, and appends will say so
                log.warning("could not write zeros ahead, syncs will be slower", error=str(error))
                return


class Committer:
    """The thread that syncs."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, config: StoreConfig, turn: Turn) -> None:
        self._store, self._loop, self._turn = store, loop, turn
        self._filler = Filler(store) if config.durability is Durability.SYNC else None
        self._ear, self._bell = _pipe()
        self._calls, self._caller = _pipe()
        loop.add_reader(self._ear, self._rung)
        self._interval_ms, self._stopped = config.flush_interval_ms, False
        self._thread = threading.Thread(target=self._run, name="penstock-commit", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Somebody waits."""
        self._store.call_sync(self._caller)

    def stop(self) -> None:
        self._stopped = True
        self._store.stop_syncing(self._caller)
        self._thread.join()
        if self._filler is not None:
            self._filler.stop()

    def close(self) -> None:
        """After `stop`, in the loop's thread."""
        self._loop.remove_reader(self._ear)
        self._store.synced(self._store.durable_now)
        for end in (self._ear, self._bell, self._calls, self._caller):
            os.close(end)

    def _rung(self) -> None:
        """In the loop: something is durable that was not before."""
        os.read(self._ear, _RINGS_BYTES)
        self._wake_filler()
        self._turn.begin()
        try:
            self._store.synced(self._store.durable_now)
        finally:
            self._turn.end()

    def _wake_filler(self) -> None:
        if self._filler is not None and self._store.fill_wanted:
            self._filler.wake()

    def _run(self) -> None:
        """What nobody waits for is synced too, every so often; so is what lies in more than one file."""
        last = False
        while not last:
            last = self._stopped  # what came before that is synced below
            self._wake_filler()
            try:
                durable = self._store.sync_while_wanted(self._bell, self._calls, self._interval_ms)
                if self._store.end_position > durable:
                    self._tell(self._store.synced, self._store.sync())
            except OSError as error:
                self._tell(self._failed, f"the log could not be synced ({error})")
                return

    def _failed(self, why: str) -> None:
        self._store.synced(self._store.durable_now)  # what was durable before stays so
        self._store.sync_failed(why)

    def _tell(self, what: object, argument: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(what, argument)  # type: ignore[arg-type]


def _pipe() -> tuple[int, int]:
    """Neither end of it waits."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


class Keeper:
    """Runs the store: start it in the loop that uses the store."""

    def __init__(self, store: Store, clock: Clock, config: StoreConfig, turn: Turn | None = None) -> None:
        self._store, self._clock, self._config, self._turn = store, clock, config, turn or Turn()
        self._committer: Committer | None = None
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._checkpointed_ms = self._cleaned_ms = clock.monotonic_ms()

    async def start(self) -> None:
        self._committer = Committer(self._store, asyncio.get_running_loop(), self._config, self._turn)
        self._task = asyncio.create_task(self._run(), name="penstock-keeper")

    def when_durable(self, position: int, then: Then) -> None:
        """Call `then(error)` once everything up to `position` is durable."""
        if not self._store.when_durable(position, then) and self._committer is not None:
            self._committer.wake()

    async def durable(self, position: int) -> None:
        """Wait until everything up to `position` is durable; raises when it can never be."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.when_durable(position, then)
        await done

    async def stop(self) -> None:
        """Let a checkpoint under way finish, sync what waits, stop cleanly."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._committer is not None:
            await asyncio.to_thread(self._committer.stop)
            await asyncio.sleep(0)  # what it told the loop last
            self._committer.close()
            self._committer = None
        self._store.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self._tick()
            except (StoreError, OSError) as error:
                log.error("housekeeping of the log failed, it is tried again", error=str(error))
            except Exception:  # a fault of ours: without checkpoints and the cleaner it would only become worse
                log.exception("housekeeping of the log failed unexpectedly, it is tried again: please report this")
                await asyncio.sleep(_FAULT_PAUSE_S)

    async def _tick(self) -> None:
        now_ms, store, config = self._clock.monotonic_ms(), self._store, self._config
        if store.read_only_because is not None:
            return
        if now_ms - self._cleaned_ms >= config.clean_interval_ms:
            self._cleaned_ms = now_ms
            while store.clean_step():
                await asyncio.sleep(0)
        behind = store.end_position - store.checkpoint_position
        late = now_ms - self._checkpointed_ms >= config.checkpoint_interval_ms
        if behind >= config.checkpoint_bytes or (behind and late):
            await self.checkpoint()
            self._checkpointed_ms = now_ms

    async def checkpoint(self) -> None:
        """Write a checkpoint beside the traffic."""
        pending = self._store.begin_checkpoint()
        try:
            await self.durable(pending.position)
            await self._write(pending)
        except BaseException:
            self._store.abort_checkpoint(pending)
            raise
        self._store.end_checkpoint(pending)

    async def _write(self, pending: Pending) -> None:
        loop = asyncio.get_running_loop()
        self._writing = asyncio.ensure_future(loop.run_in_executor(None, pending.write))
        try:
            await asyncio.shield(self._writing)
        finally:
            if self._writing.done():
                self._writing = None
