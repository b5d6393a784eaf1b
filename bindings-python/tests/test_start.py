"""Starting: dialects of the environment, Config, the side channel, the first group, the command."""

import os
import random
import socket
import subprocess
import sys
import time

import pytest
from conftest import clean_environment

import lycaon

WHO = """
group = lycaon.init()
assert group.all_gather(group.rank()).tolist() == list(range(group.size()))
print(group.rank(), group.size())
"""


def free_port():
    """A port that is free together with the next one.

    It lies below the ports that systems hand out to outgoing connections: one of those could take
    it between this look and its use.
    """
    for port in random.sample(range(12000, 30000, 2), 100):
        with socket.socket() as probe, socket.socket() as next_one:
            try:
                probe.bind(("127.0.0.1", port))
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise RuntimeError("no two free ports among a hundred pairs")


def test_torchrun_variables(job):
    port = str(free_port())
    per_rank = [
        {
            "RANK": str(rank),
            "WORLD_SIZE": "3",
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        for rank in range(3)
    ]
    outputs = job.start(3, WHO, per_rank=per_rank).succeed()
    assert outputs == ["0 3\n", "1 3\n", "2 3\n"]


def test_tcp_rendezvous_with_a_token(job):
    common = {"LYCAON_SIZE": "2", "LYCAON_TOKEN": "s3cret"}
    common["LYCAON_RENDEZVOUS"] = f"127.0.0.1:{free_port()}"
    per_rank = [common | {"LYCAON_RANK": str(rank)} for rank in range(2)]
    assert job.start(2, WHO, per_rank=per_rank).succeed() == ["0 2\n", "1 2\n"]


def test_config_and_file_rendezvous(job):
    program = """
        import pathlib
        config = lycaon.Config(
            rank=int(os.environ["WHO"]), size=2, rendezvous=pathlib.Path(os.environ["WHERE"]),
            token=b"secret", links=["tcp"], timeout=12.5, algorithm={"all_reduce": "ring"}, rails=2,
        )
        assert config.timeout == 12.5 and config.links == ["tcp"] and config.has_token
        assert config.algorithm == {"all_reduce": "ring"} and config.rails == 2
        assert "secret" not in repr(config)
        group = lycaon.init(config)
        assert group.timeout == 12.5 and {link.kind for link in group.links()} == {"tcp"}
        assert group.all_reduce(np.arange(1000.0)).sum() == 999_000
        assert group.flight_recorder()[-1].algorithm == "ring"
        print(group.rank(), group.size())
        """
    where = str(job.folder / "meet")
    per_rank = [{"WHO": str(rank), "WHERE": where} for rank in range(2)]
    assert job.start(2, program, per_rank=per_rank).succeed() == ["0 2\n", "1 2\n"]


def test_a_function_of_the_program_as_rendezvous(job):
    program = """
        folder = os.environ["WHERE"]
        rounds = 0
        def all_gather(rank, size, mine):
            global rounds
            rounds += 1
            path = f"{folder}/{rounds}-{rank}"
            with open(path + ".new", "wb") as file:
                file.write(mine)
            os.rename(path + ".new", path)
            everyone = []
            for other in range(size):
                while not os.path.exists(f"{folder}/{rounds}-{other}"):
                    time.sleep(0.005)
                with open(f"{folder}/{rounds}-{other}", "rb") as file:
                    everyone.append(file.read())
            return everyone
        if os.environ.get("BROKEN") == "1":
            def all_gather(rank, size, mine):
                raise RuntimeError("the disk is full")
        config = lycaon.Config(
            rank=int(os.environ["WHO"]), size=2, rendezvous=all_gather, token="t", start_timeout=20
        )
        try:
            group = lycaon.init(config)
        except lycaon.SideChannelFailed as error:
            print(error.reason)
        else:
            assert group.all_reduce(group.rank() + 1).item() == 3
            print(group.rank(), group.size())
        """
    env = {"WHERE": str(job.folder)}
    per_rank = [env | {"WHO": str(rank)} for rank in range(2)]
    assert job.start(2, program, per_rank=per_rank).succeed() == ["0 2\n", "1 2\n"]
    job.stop()
    job.ranks.clear()
    per_rank = [env | {"WHO": "0", "BROKEN": "1"}]
    (output,) = job.start(1, program, per_rank=per_rank).succeed()
    assert "the disk is full" in output


def test_wrong_configurations():
    for arguments, kind, part in [
        ({"rank": -1, "size": 2}, "value", "rank"),
        ({"rank": 2, "size": 2, "rendezvous": "127.0.0.1:1"}, "conflict", "size"),
        ({"rank": 0, "size": 2}, "missing", "rendezvous"),
        ({"rank": 0}, "missing", "size"),
        ({"rank": 0, "size": 2, "rendezvous": "10.1.2.3:4000"}, "token_needed", "10.1.2.3"),
        ({"rendezvous": "nonsense"}, "value", "rendezvous"),
        ({"links": "shm,pigeons"}, "value", "pigeons"),
        ({"timeout": -1.0}, "value", "timeout"),
        ({"timeout": float("nan")}, "value", "timeout"),
        ({"algorithm": "fast"}, "value", "fast"),
        ({"algorithm": {"all_reduc": "ring"}}, "value", "all_reduc"),
        ({"rails": 0}, "value", "rails"),
        ({"staging": 1}, "value", "staging"),
    ]:
        with pytest.raises(lycaon.ConfigError) as caught:
            lycaon.Config(**arguments)
        assert isinstance(caught.value, ValueError)
        assert caught.value.kind == kind and part in str(caught.value), (arguments, caught.value)
    with pytest.raises(TypeError):
        lycaon.Config(rank="0")
    with pytest.raises(TypeError):
        lycaon.Config(rendezvous=3)
    with pytest.raises(TypeError):
        lycaon.Config(0, 1)


def test_config_from_the_environment(monkeypatch):
    for name in list(os.environ):
        if name not in clean_environment():
            monkeypatch.delenv(name)
    monkeypatch.setenv("LYCAON_TIMEOUT", "7s")
    monkeypatch.setenv("LYCAON_LINKS", "tcp")
    config = lycaon.Config.from_env(links="shm")
    assert config.timeout == 7 and config.links == ["shm"] and (config.rank, config.size) == (0, 1)
    monkeypatch.setenv("LYCAON_RANK", "two")
    with pytest.raises(lycaon.ConfigError) as caught:
        lycaon.Config.from_env()
    assert (caught.value.name, caught.value.value) == ("LYCAON_RANK", "two")
    monkeypatch.setenv("LYCAON_RANK", "1")
    with pytest.raises(lycaon.ConfigError) as caught:
        lycaon.init()
    assert caught.value.kind == "missing" and caught.value.missing == "LYCAON_SIZE"


def test_functions_work_on_the_first_group(job):
    job.start(
        2,
        """
        assert lycaon.is_available() and not lycaon.is_available("nccl")
        rank = lycaon.init().rank()
        assert lycaon.init() is lycaon.init(strict=True, backend="any")
        group = lycaon.init()
        x = np.arange(4.0) + rank
        assert (lycaon.all_sum(x) == 2 * np.arange(4.0) + 1).all()
        assert (lycaon.all_max(x, stream=None) == np.arange(4.0) + 1).all()
        assert (lycaon.all_min(x, group=group) == np.arange(4.0)).all()
        assert lycaon.all_gather(x).shape == (8,)
        assert (lycaon.sum_scatter(x) == (2 * np.arange(4.0) + 1)[2 * rank : 2 * rank + 2]).all()
        if rank == 0:
            assert lycaon.send(x, 1) is x
        else:
            assert (lycaon.recv_like(x, 0) == np.arange(4.0)).all()
        if rank == 1:
            lycaon.send(x, 0, group=group)
        else:
            assert (lycaon.recv((4,), np.float64, 1) == np.arange(4.0) + 1).all()
        assert lycaon.split(rank).size() == 1
        lycaon.barrier()
        assert lycaon.all_reduce_async(rank, "max").wait(10).item() == 1
        assert (lycaon.scan(1) == rank + 1).all() and lycaon.broadcast(rank, 1).item() == 1
        """,
    ).succeed()


def test_a_group_of_one_without_variables():
    with lycaon.init(lycaon.Config()) as group:
        assert (group.rank(), group.size(), group.members, group.links()) == (0, 1, (0,), [])
        assert repr(group) == "<lycaon.Group rank 0 of 1>"
        assert group.describe().startswith("rank 0 of 1\n")
        group.barrier()
        before = group.progress().completed
        group.all_reduce(1)
        assert group.progress().completed == before + 1
        record = group.flight_recorder()[-1]
        assert (record.operation, record.dtype, record.count, record.op) == (
            "all_reduce",
            "i64",
            1,
            "sum",
        )
        assert record.outcome == "completed" and record.took >= 0 and "all_reduce" in repr(record)
        with pytest.raises(lycaon.ConfigError):
            group.timeout = -1
    with pytest.raises(lycaon.Closed):
        group.barrier()


def test_start_deadline(job):
    job.start(
        1,
        """
        began = time.monotonic()
        try:
            lycaon.init()
        except lycaon.StartTimeout as error:
            assert isinstance(error, TimeoutError) and error.within == 0.5
            assert 0.4 < time.monotonic() - began < 3
            assert error.rank == 0 and error.waiting_for
        else:
            raise SystemExit("rank 1 never came")
        """,
        env={"LYCAON_SIZE": "2", "LYCAON_START_TIMEOUT": "500ms"},
    ).succeed()


def test_the_import_is_light():
    program = (
        "import sys, time; began = time.perf_counter(); import lycaon;"
        "took = time.perf_counter() - began;"
        "heavy = {'numpy', 'asyncio', 'multiprocessing', 'ml_dtypes'} & sys.modules.keys();"
        "assert not heavy, heavy; print(took)"
    )
    run = [sys.executable, "-c", program]
    times = [
        float(subprocess.run(run, check=True, capture_output=True, timeout=30).stdout)
        for _ in range(5)
    ]
    assert min(times) < 0.1, times


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "lycaon", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        **options,
    )


def test_the_command_of_the_wheel():
    answer = command("version")
    assert answer.returncode == 0 and lycaon.__version__ in answer.stdout
    program = "import lycaon; g = lycaon.init(); print('sum', g.all_reduce(g.rank() + 1))"
    answer = command("launch", "-n", "3", "--", sys.executable, "-c", program)
    assert answer.returncode == 0, answer
    assert sorted(answer.stdout.splitlines()) == [f"[{rank}] sum 6" for rank in range(3)]
    answer = command("launch", "-n", "2", "--", sys.executable, "-c", "import sys; sys.exit(7)")
    assert answer.returncode == 7, answer
    assert command("nonsense").returncode == 2


def test_the_console_script():
    script = os.path.join(os.path.dirname(sys.executable), "lycaon")
    answer = subprocess.run([script, "version"], capture_output=True, text=True, timeout=30)
    assert answer.returncode == 0 and lycaon.__version__ in answer.stdout


def test_nothing_is_left_when_the_launcher_is_killed(tmp_path):
    note = tmp_path / "ranks"
    program = f"import os, time; open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lycaon", "launch", "-n", "2", "--", sys.executable, "-c", program],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 20
        while not note.exists() or len(note.read_text().splitlines()) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        launcher.kill()
        launcher.wait()
    pids = [int(line) for line in note.read_text().splitlines()]
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < until, "ranks outlived their launcher"
        time.sleep(0.05)
