"""The packages: where each comes from, which of its tests are run, and what those need."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALONE", "FACULA", "PACKAGES", "TOOLS", "Package"]

#: Of the packages' needs these are installed without what they need in turn, which is torch.
ALONE = "accelerate einx opt_einsum_fx torch_einops_utils torchdiffeq torchvision".split()
#: What runs the tests.
TOOLS = "pytest pytest-timeout hypothesis six tabulate".split()

#: What facula needs.
FACULA = "numpy scipy-openblas32 mpi4py mpich".split()


@dataclass(frozen=True)
class Package:
    """A package and its tests.

    name: what it is called.
    repository: "owner/name"; "" for a package that pip brings, whose tests are in `programs`.
    modules: folders of the repository that are importable packages.
    tests: files and folders of tests.
    only: of their names, those that this pattern is found in.
    needs: what it and its tests import besides torch and the other packages of the table.
    sample: how many tests are drawn.
    options: further arguments of pytest.
    settings: of the environment, "NAME=VALUE".
    copies: files that an installation puts elsewhere, "FROM:TO".
    """

    name: str
    repository: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    needs: str = ""
    only: str = ""
    sample: int = 300
    options: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


# By how many people use them.
PACKAGES = (
    Package(
        "einops",
        "arogozhnikov/einops",
        ("einops",),
        ("einops/tests",),
        "numpy",
        sample=200,
        settings=("EINOPS_TEST_BACKENDS=numpy,torch",),
    ),
    Package(
        "torchmetrics",
        "Lightning-AI/torchmetrics",
        ("src/torchmetrics",),
        (
            "tests/unittests/bases",
            "tests/unittests/classification",
            "tests/unittests/clustering",
            "tests/unittests/image",
            "tests/unittests/nominal",
            "tests/unittests/pairwise",
            "tests/unittests/regression",
            "tests/unittests/retrieval",
            "tests/unittests/segmentation",
            "tests/unittests/shape",
            "tests/unittests/utilities",
            "tests/unittests/wrappers",
        ),
        "numpy scipy scikit-learn scikit-image pandas lightning-utilities cloudpickle psutil"
        " cachier fire matplotlib watchdog pympler",
        sample=200,
        options=("-o", "addopts="),
    ),
    Package(
        "timm",
        "huggingface/pytorch-image-models",
        ("timm",),
        ("tests",),
        "pyyaml huggingface_hub safetensors numpy pillow expecttest",
        r"tests/test_(?!models)"
        r"|[\[-](resnet(18|26)|test_\w+|vit_tiny_\w+|deit_tiny_\w+|mobilenetv[234]_small_\w+|regnet[xy]_002"
        r"|efficientnet_lite0|lcnet_\d+|convnext_atto|ghostnet_\d+|mobilevit_xxs|levit_128s|edgenext_xx\w+"
        r"|tinynet_e|poolformer_s12|pit_ti_\w+|crossvit_tiny\w+|xcit_nano\w+|fastvit_t8|repvgg_a0)\b",
        sample=100,
    ),
    Package(
        "transformers",
        "",
        (),
        ("test_transformers.py",),
        "transformers",
    ),
    Package(
        "lightning",
        "Lightning-AI/pytorch-lightning",
        ("src/lightning",),
        (
            "tests/tests_fabric",
            "tests/tests_pytorch/callbacks",
            "tests/tests_pytorch/checkpointing",
            "tests/tests_pytorch/core",
            "tests/tests_pytorch/loops",
            "tests/tests_pytorch/models",
            "tests/tests_pytorch/trainer",
            "tests/tests_pytorch/tuner",
            "tests/tests_pytorch/utilities",
        ),
        "tqdm pyyaml fsspec packaging lightning-utilities cloudpickle scikit-learn psutil"
        " jsonargparse tensorboard",
        sample=300,
        options=("-o", "addopts="),
        copies=("src/version.info:src/lightning/version.info",),
    ),
    Package(
        "kornia", "kornia/kornia", ("kornia", "testing"), ("tests",), "kornia_rs numpy", sample=600
    ),
    Package(
        "x-transformers",
        "lucidrains/x-transformers",
        ("x_transformers",),
        ("tests",),
        "loguru packaging frozendict",
        sample=60,
    ),
    Package("zuko", "probabilists/zuko", ("zuko",), ("tests",), "numpy", sample=200),
    Package(
        "pytorch-metric-learning",
        "KevinMusgrave/pytorch-metric-learning",
        ("src/pytorch_metric_learning",),
        ("tests",),
        "numpy scikit-learn tqdm faiss-cpu",
        sample=60,
        settings=("TEST_DEVICE=cpu",),
    ),
    Package(
        "captum",
        "pytorch/captum",
        ("captum",),
        ("tests",),
        "matplotlib parameterized flask flask_compress annoy ipython",
        sample=300,
    ),
    Package(
        "segmentation-models",
        "qubvel-org/segmentation_models.pytorch",
        ("segmentation_models_pytorch",),
        ("tests",),
        "huggingface_hub pillow",
        sample=150,
    ),
    Package(
        "torchsde", "google-research/torchsde", ("torchsde",), ("tests",), "trampoline", sample=300
    ),
    Package(
        "tensordict",
        "pytorch/tensordict",
        ("tensordict",),
        ("test",),
        "numpy cloudpickle packaging importlib_metadata orjson pyvers",
        sample=600,
        options=("-o", "addopts="),
    ),
    Package("e3nn", "e3nn/e3nn", ("e3nn",), ("tests",), "sympy scipy", sample=250),
    Package("opacus", "pytorch/opacus", ("opacus",), ("opacus/tests",), "opt_einsum", sample=250),
    Package(
        "ignite",
        "pytorch/ignite",
        ("ignite",),
        ("tests/ignite/engine", "tests/ignite/handlers", "tests/ignite/metrics"),
        "packaging",
        sample=200,
    ),
    Package(
        "linear_operator",
        "cornellius-gp/linear_operator",
        ("linear_operator",),
        ("test",),
        "scipy",
        sample=200,
    ),
    Package(
        "pyro",
        "pyro-ppl/pyro",
        ("pyro",),
        ("tests/distributions", "tests/params", "tests/poutine"),
        "pyro-api opt_einsum tqdm",
        sample=200,
    ),
    Package(
        "pytorch_optimizer",
        "kozistr/pytorch_optimizer",
        ("pytorch_optimizer",),
        ("tests",),
        sample=200,
        options=("-o", "addopts="),
    ),
    Package(
        "torchinfo", "TylerYep/torchinfo", ("torchinfo",), ("tests/torchinfo_test.py",), sample=150
    ),
)
