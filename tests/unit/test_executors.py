"""Executors: the same answers everywhere, a dead worker costs one run, and nothing outlives the `with`."""

import concurrent.futures
import operator
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hyperleaf.errors import InputError
from hyperleaf.executors import (
    DaskExecutor,
    ProcessExecutor,
    SerialExecutor,
    ThreadExecutor,
    WorkerError,
    executor,
    num_slots,
)
from hyperleaf.simulators import CommandSimulator, Failure, FunctionSimulator, Success

SOURCE = Path(__file__).resolve().parents[2] / "src"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped by its parent does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if Path("/proc").is_dir() else True
    except (ProcessLookupError, FileNotFoundError):
        return False


def eventually(condition, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def sleeper(tmp_path: Path) -> CommandSimulator:
    """A command with a child; both write their process ids to the run's folder, and sleep."""
    script = "sleep 60 & echo $! > child; echo $$ > parent; wait"
    return CommandSimulator(["sh", "-c", script], ["y"], folder=tmp_path)


def pids(tmp_path: Path, queries: int = 1) -> list[int]:
    """Process ids of the sleepers, once all have written them."""

    def written() -> list[str]:
        return [text for file in tmp_path.glob("runs/*/*/[cp][ha][ir]*") if (text := file.read_text().strip())]

    assert eventually(lambda: len(written()) == 2 * queries)
    return [int(text) for text in written()]


@pytest.fixture(scope="module")
def processes():
    with executor(2) as pool:
        yield pool


def test_specs_name_their_executor() -> None:
    kinds = {1: SerialExecutor, "1": SerialExecutor, "serial": SerialExecutor, 3: ProcessExecutor, "processes:1": ProcessExecutor}
    kinds |= {"threads:2": ThreadExecutor, "threads": ThreadExecutor, "2": ProcessExecutor}
    for spec, kind in kinds.items():
        with executor(spec) as made:
            assert type(made) is kind


@pytest.mark.parametrize(
    "spec", [0, -1, True, 2.0, None, "", "many", "processes:", "threads:-1", "threads:0", "processes:99999", "dask:", 10**6]
)
def test_a_wrong_spec_is_refused_with_its_value(spec) -> None:
    with pytest.raises(InputError, match=r"must be.*got"):
        executor(spec)


@pytest.mark.parametrize("spec", ["serial", "threads:2", "processes"])
def test_results_and_errors_come_back(spec, processes) -> None:
    with ExitStack() as stack:
        pool = processes if spec == "processes" else stack.enter_context(executor(spec))
        futures = [pool.submit(operator.mul, i, 2) for i in range(5)]
        assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == [0, 2, 4, 6, 8]
        assert isinstance(pool.submit(operator.truediv, 1, 0).exception(), ZeroDivisionError)
        assert list(pool.map(operator.neg, [1, 2])) == [-1, -2]


@pytest.mark.parametrize("spec", ["serial", "threads:2", "processes:1"])
def test_a_closed_executor_takes_nothing_more(spec) -> None:
    with executor(spec) as pool:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


def test_serial_runs_at_once_and_lets_ctrl_c_pass() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with executor("serial") as pool:
        assert pool.submit(os.getpid).result(timeout=0) == os.getpid()
        with pytest.raises(KeyboardInterrupt):
            pool.submit(interrupt)


def test_workers_are_other_processes_that_start_light(processes) -> None:
    assert processes.submit(os.getpid).result() != os.getpid()
    loaded = processes.submit(eval, "sorted({m.partition('.')[0] for m in __import__('sys').modules})").result()
    assert "hyperleaf" in loaded
    assert "jax" not in loaded


def test_a_lambda_is_refused_with_a_remedy(processes) -> None:
    with pytest.raises(InputError, match="threads:N"):
        processes.submit(lambda: 1)


def test_a_result_that_cannot_travel_is_an_error_not_a_hang(processes) -> None:
    assert isinstance(processes.submit(eval, "lambda: 1").exception(timeout=10), Exception)
    assert processes.submit(operator.add, 1, 1).result(timeout=10) == 2


def test_an_error_says_where_it_happened_in_the_worker(processes) -> None:
    error = processes.submit(operator.truediv, 1, 0).exception()
    assert "In the worker process" in "".join(error.__notes__)


def test_a_worker_that_dies_costs_its_own_run_only() -> None:
    with executor("processes:2") as pool:
        other = pool.submit(time.sleep, 1.0)
        dead = pool.submit(eval, "__import__('os').kill(__import__('os').getpid(), 11)")
        with pytest.raises(WorkerError, match="signal 11"):
            dead.result(timeout=10)
        assert pool.submit(operator.add, 1, 1).result(timeout=10) == 2
        assert other.result(timeout=10) is None


def test_workers_ignore_ctrl_c(processes) -> None:
    running = processes.submit(eval, "(__import__('time').sleep(0.3), __import__('os').getpid())[1]")
    worker = processes.submit(os.getpid).result()
    os.kill(worker, signal.SIGINT)
    assert running.result(timeout=10)
    assert processes.submit(operator.add, 1, 1).result(timeout=10) == 2
    assert is_alive(worker)


@pytest.mark.parametrize("spec", ["threads:2", "processes:2"])
def test_exit_cancels_what_waits_and_ends_what_runs(spec, tmp_path: Path) -> None:
    simulator = sleeper(tmp_path)
    with executor(spec) as pool:
        futures = [pool.submit(simulator, {}, query_id=i, attempt=1) for i in range(4)]
        commands = pids(tmp_path, 2)
        workers = [worker._process.pid for worker in getattr(pool, "_workers", ())]
        assert all(map(is_alive, commands + workers))
        begin = time.monotonic()
    assert time.monotonic() - begin < 4
    assert eventually(lambda: not any(map(is_alive, commands + workers)), 1.0)  # killed, but the kernel takes its time
    assert [future.cancelled() for future in futures] == [False, False, True, True]
    assert all(future.done() for future in futures)
    for future in futures[:2]:  # a worker may get to say that it was interrupted, or not
        assert isinstance(future.exception(), WorkerError) or future.result().interrupted
    assert len(list(tmp_path.glob("runs/*"))) == 2


def test_exit_ends_workers_that_never_return_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperleaf.executors.processes.GRACE", 0.3)
    with executor("processes:2") as pool:
        futures = [pool.submit(re.match, "(a+)+$", "a" * 60 + "b") for _ in range(2)]  # takes years and holds the interpreter
        assert eventually(lambda: len(pool._workers) == 2)
        time.sleep(1.0)
        begin = time.monotonic()
    assert time.monotonic() - begin < 2
    assert all(isinstance(future.exception(), WorkerError) for future in futures)


def test_commands_of_another_executor_go_on(tmp_path: Path) -> None:
    simulator = CommandSimulator("sleep 1", ["y"], output={"y": "(x)"}, folder=tmp_path)
    with executor("threads:1") as one:
        future = one.submit(simulator, {}, query_id=1)
        with executor("threads:1") as two:
            two.submit(simulator, {}, query_id=2)
            time.sleep(0.2)
        outcome = future.result()
    assert isinstance(outcome, Failure)
    assert not outcome.interrupted
    assert "was not found" in outcome.reason


@pytest.mark.parametrize("spec", ["serial", "processes:2"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_nothing_outlives_a_campaign_that_is_stopped(spec: str, number: int, tmp_path: Path) -> None:
    script = tmp_path / "campaign.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            from pathlib import Path
            from hyperleaf.executors import executor
            from hyperleaf.simulators import CommandSimulator
            if __name__ == "__main__":
                command = ["sh", "-c", "sleep 60 & echo $! > child; echo $$ > parent; wait"]
                simulator = CommandSimulator(command, ["y"], folder=sys.argv[1])
                with executor(sys.argv[2]) as pool:
                    futures = [pool.submit(simulator, {}, query_id=i) for i in range(2)]
                    workers = [worker._process.pid for worker in getattr(pool, "_workers", ())]
                    futures[0].result()
            """
        )
    )
    command = [sys.executable, str(script), str(tmp_path), spec]
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    campaign = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        started = pids(tmp_path, 2 if spec == "processes:2" else 1)
        family = started + session(campaign.pid)
        assert campaign.pid in family
        if number == signal.SIGINT:
            os.killpg(campaign.pid, number)  # as a terminal does: to workers too
        else:
            os.kill(campaign.pid, number)
        assert campaign.wait(10) != 0
        assert eventually(lambda: not any(map(is_alive, family)))
    finally:
        campaign.kill()
        campaign.wait()


def session(leader: int) -> list[int]:
    """Processes of a session; only the leader where there is no /proc."""
    found = [leader]
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(file.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(file.parent.name))
        except (OSError, IndexError):
            continue  # it ended meanwhile
    return found


def test_a_script_without_main_guard_gets_told(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from hyperleaf.executors import executor\n"
        "with executor('processes:1') as pool:\n    print(pool.submit(int).exception())\n"
    )
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=30)
    assert "__main__" in done.stdout
    assert done.returncode == 0


def test_forgetting_to_close_does_not_hang_at_exit() -> None:
    code = "from hyperleaf.executors import executor; executor('processes:1').submit(int).result()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(SOURCE)}, timeout=20, check=True)


def test_a_borrowed_executor_stays_open() -> None:
    with ThreadPoolExecutor(1) as own:
        with executor(own) as pool:
            first = pool.submit(time.sleep, 0.2)
            second = pool.submit(time.sleep, 0.2)
        assert second.cancelled()
        assert first.result() is None
        assert own.submit(operator.add, 1, 1).result() == 2


def test_simulators_run_in_workers(processes, tmp_path: Path) -> None:
    (tmp_path / "square_model.py").write_text("def f(x):\n    return x * x\n")
    simulator = FunctionSimulator("square_model:f", ["y"], folder=tmp_path, inputs=["x"])
    outcomes = [processes.submit(simulator, {"x": float(i)}, query_id=i, attempt=1).result() for i in range(3)]
    assert [outcome.outputs["y"] for outcome in outcomes if isinstance(outcome, Success)] == [0.0, 1.0, 4.0]


def test_dask_absent_or_misspelt_is_said_clearly() -> None:
    with pytest.raises(InputError, match=r"hyperleaf\[dask\]|dask://host:port"):
        executor("dask://nowhere")


def test_dask_runs_simulators_and_ends_their_commands(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs distributed: pip install 'hyperleaf[dask]'")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        with executor(address) as pool:
            assert isinstance(pool, DaskExecutor)
            futures = [pool.submit(operator.mul, i, 2) for i in range(4)]
            assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == [0, 2, 4, 6]
            assert isinstance(pool.submit(operator.truediv, 1, 0).exception(), ZeroDivisionError)
            running = pool.submit(sleeper(tmp_path), {}, query_id=1)
            commands = pids(tmp_path)
        assert eventually(lambda: not any(map(is_alive, commands)))
        assert running.done()
        with executor(address) as again:
            assert again.submit(operator.add, 1, 1).result(timeout=10) == 2


def test_dask_scheduler_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs distributed: pip install 'hyperleaf[dask]'")
    monkeypatch.setattr("hyperleaf.executors.dask.CONNECT", 0.5)
    with pytest.raises(InputError, match="did not answer"):
        executor("dask://127.0.0.1:9")


def test_futures_are_those_of_the_standard_library(processes) -> None:
    done, _ = concurrent.futures.wait([processes.submit(int)])
    assert len(done) == 1


@pytest.mark.parametrize(("spec", "slots"), [(1, 1), ("serial", 1), (3, 3), ("threads:2", 2), ("processes:4", 4)])
def test_an_executor_tells_how_many_runs_it_makes_at_a_time(spec, slots) -> None:
    with executor(spec) as workers:
        assert num_slots(workers) == slots
    with ThreadPoolExecutor(5) as own, executor(own) as workers:
        assert num_slots(workers) == 5
