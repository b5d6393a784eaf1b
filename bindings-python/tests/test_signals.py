"""Waits let other threads run and end by Ctrl-C."""

import os
import signal
import time

import pytest


@pytest.mark.parametrize("links", ["shm", "tcp"])
@pytest.mark.parametrize(
    "call",
    [
        "group.all_reduce(np.ones(10))",
        "group.recv((4,), float, 1)",
        "group.barrier_async().wait()",
        "group.recv_async((4,), float, 1).wait(timeout=60)",
        "group.split(0)",
        "group.send(np.ones(8_000_000), 1)",
    ],
)
def test_ctrl_c_ends_a_wait_within_a_second(job, call, links):
    job.start(
        2,
        f"""
        group = lycaon.init()
        group.barrier()
        if group.rank() == 1:
            sys.stdin.close()
            time.sleep(30)
            raise SystemExit("nobody ended this rank")
        print("waiting", flush=True)
        try:
            {call}
        except KeyboardInterrupt as error:
            print("interrupted", type(error.__cause__).__name__, flush=True)
        """,
        links=links,
    )
    job.wait_for_line(0, "waiting")
    time.sleep(0.3)
    began = time.monotonic()
    job.ranks[0].send_signal(signal.SIGINT)
    out, err = job.ranks[0].communicate(timeout=10)
    took = time.monotonic() - began
    assert job.ranks[0].returncode == 0 and "interrupted Interrupted" in out, (out, err)
    assert took < 1.5, took  # of it, the wait has 1 s and the exit the rest


def test_ctrl_c_while_the_group_forms(job):
    job.start(
        1,
        """
        print("waiting", flush=True)
        began = time.monotonic()
        try:
            lycaon.init()
        except KeyboardInterrupt as error:
            print("interrupted", type(error.__cause__).__name__, flush=True)
        """,
        env={"LYCAON_SIZE": "2", "LYCAON_START_TIMEOUT": "60s"},
    )
    job.wait_for_line(0, "waiting")
    time.sleep(0.3)
    began = time.monotonic()
    job.ranks[0].send_signal(signal.SIGINT)
    out, err = job.ranks[0].communicate(timeout=10)
    assert time.monotonic() - began < 1.5
    assert job.ranks[0].returncode == 0 and "interrupted StartInterrupted" in out, (out, err)


def test_handlers_of_the_program_run_during_a_wait(job):
    job.start(
        2,
        """
        group = lycaon.init()
        group.barrier()
        if group.rank() == 0:
            seen = []
            signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
            print("waiting", flush=True)
            assert group.recv((1,), int, 1).item() == 7
            assert len(seen) == 1 and time.monotonic() - seen[0] > 0.5, "it waited for the message"
        else:
            time.sleep(2)
            group.send(np.array([7]), 0)
        """,
    )
    job.wait_for_line(0, "waiting")
    job.ranks[0].send_signal(signal.SIGUSR1)
    job.succeed(20)


def test_only_the_main_thread_is_interrupted(job):
    job.start(
        2,
        """
        group = lycaon.init()
        group.barrier()
        if group.rank() == 0:
            got = []
            thread = threading.Thread(target=lambda: got.append(group.recv((1,), int, 1).item()))
            thread.start()
            print("waiting", flush=True)
            try:
                while thread.is_alive():
                    time.sleep(0.01)
                raise SystemExit("no Ctrl-C came")
            except KeyboardInterrupt:
                pass
            assert thread.is_alive()
            group.send(np.array([1]), 1, tag=1)
            thread.join(10)
            assert got == [7]
        else:
            group.recv((1,), int, 0, tag=1)
            group.send(np.array([7]), 0)
        """,
    )
    job.wait_for_line(0, "waiting")
    time.sleep(0.3)
    job.ranks[0].send_signal(signal.SIGINT)
    job.succeed(20)


def test_other_threads_run_during_a_wait(job):
    job.start(
        2,
        """
        group = lycaon.init()
        group.barrier()
        if group.rank() == 0:
            count, stop = 0, False
            def busy():
                global count
                while not stop:
                    count += 1
                    time.sleep(0.001)
            thread = threading.Thread(target=busy)
            thread.start()
            group.recv((1,), int, 1)
            stop = True
            thread.join()
            assert count > 50, count
        else:
            time.sleep(0.6)
            group.send(np.array([7]), 0)
        """,
    ).succeed(20)


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_many_threads_use_one_group(job, links):
    job.start(
        2,
        """
        group = lycaon.init()
        rank = group.rank()
        failures = []
        def messages(tag):
            try:
                for step in range(50):
                    x = np.full(tag * 100 + 1, float(step * 2 + rank))
                    got = group.send_recv(x, 1 - rank, 1 - rank, tag=tag)
                    assert (got == step * 2 + 1 - rank).all()
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=messages, args=(tag,)) for tag in range(1, 5)]
        for thread in threads:
            thread.start()
        for step in range(100):
            assert group.all_reduce(step).item() == 2 * step
            group.progress(), group.flight_recorder(), group.links()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not failures, failures
        """,
        links=links,
    ).succeed(40)


def test_a_forked_child_gets_an_error_and_harms_nothing(job):
    job.start(
        2,
        """
        group = lycaon.init()
        work = group.all_reduce_async(1)
        work.wait()
        pending = group.recv_async((1,), int, 1 - group.rank(), tag=8)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                group.all_reduce(1)
            except lycaon.Forked as error:
                code = 0 if error.owner == os.getppid() else 4
            del work, pending
            group.close()
            del group
            lycaon._lycaon._close_all()
            mine = lycaon.init(lycaon.Config())
            code = code or (0 if mine.all_reduce(5).item() == 5 else 5)
            if code:
                os._exit(code)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        group.barrier()
        group.send(np.array([group.rank()]), 1 - group.rank(), tag=8)
        assert pending.wait().item() == 1 - group.rank()
        assert group.all_reduce(group.rank()).item() == 1
        """,
    ).succeed(30)


def test_sigterm_ends_a_waiting_rank(job):
    job.start(
        2,
        """
        group = lycaon.init()
        group.barrier()
        if group.rank() == 1:
            time.sleep(30)
        print("waiting", flush=True)
        group.barrier()
        """,
    )
    job.wait_for_line(0, "waiting")
    began = time.monotonic()
    os.kill(job.ranks[0].pid, signal.SIGTERM)
    assert job.ranks[0].wait(5) == -signal.SIGTERM
    assert time.monotonic() - began < 1
