"""Jobs that start again, and the files that start them elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from facula.distributed import checkpoint

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "docs" / "launch"


def sharded(folder: Path, processes: int, *words: str) -> tuple[list[float], str]:
    """The losses of the example's checkpoint, and what it said."""
    run = ["-m", "facula.distributed.run", "--nproc-per-node", str(processes)]
    example = ["-m", "facula.examples.sharded", "--every", "3", "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, *run, "--max-restarts", "1", *example, *words],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    state = {"training": {"losses": ""}}
    checkpoint.load(state, checkpoint_id=folder)
    return json.loads(state["training"]["losses"]), done.stdout + done.stderr


def test_losses_go_on_after_a_death(tmp_path):
    calm, _ = sharded(tmp_path / "calm", 1, "--steps", "8")
    losses, said = sharded(tmp_path / "other", 2, "--steps", "7", "--die-at", "5")
    assert "rank 1 was ended by SIGKILL" in said and "goes on after step 3" in said
    assert losses == pytest.approx(calm[:7], abs=1e-9) and len(losses) == 7
    losses, said = sharded(tmp_path / "other", 1, "--steps", "8")  # that of two processes, in one
    assert "goes on after step 7" in said and losses == pytest.approx(calm, abs=1e-9)


# What the manifests use of Kubernetes' API (batch/v1, v1); nothing else passes.
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
TEXT, WORD, COUNT = {"type": "string"}, {"type": "string", "minLength": 1}, {"type": "integer"}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
AMOUNT = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|Ki|Mi|Gi|Ti)?$"}


def exact(required: dict, **optional: dict) -> dict:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def many(item: dict) -> dict:
    return {"type": "array", "items": item, "minItems": 1}


def either(*kinds: dict) -> dict:
    return {"oneOf": list(kinds)}


AMOUNTS = exact({}, cpu=AMOUNT, memory=AMOUNT, storage=AMOUNT)
SOURCE = either(
    exact({"fieldRef": exact({"fieldPath": WORD})}),
    exact({"secretKeyRef": exact({"name": NAME, "key": WORD})}),
)
VARIABLE = either(exact({"name": WORD, "value": TEXT}), exact({"name": WORD, "valueFrom": SOURCE}))
CONTAINER = exact(
    {"name": NAME, "image": WORD, "command": many(WORD), "args": many(WORD)},
    env=many(
        either(exact({"name": WORD, "value": TEXT}), exact({"name": WORD, "valueFrom": SOURCE}))
    ),
    ports=many(exact({"name": NAME, "containerPort": PORT})),
    resources=exact({}, requests=AMOUNTS, limits=AMOUNTS),
    volumeMounts=many(exact({"name": NAME, "mountPath": {"type": "string", "pattern": "^/"}})),
)
VOLUME = either(
    exact({"name": NAME, "persistentVolumeClaim": exact({"claimName": NAME})}),
    exact({"name": NAME, "emptyDir": exact({}, medium={"const": "Memory"}, sizeLimit=AMOUNT)}),
)
POD = exact(
    {"containers": many(CONTAINER), "restartPolicy": {"enum": ["OnFailure", "Never"]}},
    subdomain=NAME,
    terminationGracePeriodSeconds=COUNT,
    volumes=many(VOLUME),
)
LABELS = {"type": "object", "additionalProperties": WORD}
META = exact({"name": NAME})
MANIFESTS = {
    "Service": ("v1", exact(
        {"ports": many(exact({"name": NAME, "port": PORT})), "selector": LABELS},
        clusterIP={"const": "None"}, publishNotReadyAddresses={"type": "boolean"},
    )),
    "PersistentVolumeClaim": ("v1", exact({
        "accessModes": many({"enum": ["ReadWriteOnce", "ReadWriteMany"]}),
        "resources": exact({"requests": AMOUNTS}),
    })),
    "Job": ("batch/v1", exact(
        {"template": exact({"metadata": exact({"labels": LABELS}), "spec": POD})},
        completionMode={"enum": ["Indexed", "NonIndexed"]},
        completions=COUNT, parallelism=COUNT, backoffLimit=COUNT,
    )),
}  # fmt: skip


def test_kubernetes_manifests():
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    given = list(yaml.safe_load_all((LAUNCH / "kubernetes.yaml").read_text()))
    for manifest in given:
        version, spec = MANIFESTS[manifest["kind"]]
        const = {"apiVersion": {"const": version}, "kind": {"const": manifest["kind"]}}
        jsonschema.validate(manifest, exact({**const, "metadata": META, "spec": spec}))
    service, claim, job = given
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    flags = dict(a[2:].split("=", 1) for a in container["args"] if a.startswith("--"))
    assert int(flags["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    # pod 0 is found by the service, which selects these pods
    assert flags["master-addr"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == job["spec"]["template"]["metadata"]["labels"]
    assert int(flags["master-port"]) == service["spec"]["ports"][0]["port"]
    assert container["ports"][0]["containerPort"] == int(flags["master-port"])
    (named,) = re.findall(r"\$\((\w+)\)", flags["node-rank"])
    assert named in [e["name"] for e in container["env"]]
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in container["volumeMounts"]}
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # the launcher takes these words
    from facula.distributed.run import _parser

    words = [a.replace("$(JOB_COMPLETION_INDEX)", "3") for a in container["args"]]
    parsed = _parser().parse_args(words)
    assert (parsed.program, parsed.node_rank, parsed.nnodes) == ("train.py", "3", "4")


def test_slurm_script():
    script = LAUNCH / "slurm.sbatch"
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text()
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    call = re.search(r"facula\.distributed\.run (.*?)'", text, re.S).group(1)
    from facula.distributed.run import _parser

    parsed = _parser().parse_args(call.replace("\\\n", " ").replace('"', "").split())
    assert parsed.program == "train.py" and parsed.node_rank == "$SLURM_NODEID"
    nodes = re.search(r"--nodes=(\d+)", text).group(1)
    assert nodes == "4" and "--ntasks-per-node=1" in text  # one launcher a machine


def test_model_of_scale_is_that_of_the_page():
    tool = [sys.executable, str(ROOT / "tools" / "scale_model.py")]
    table = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    assert table in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
