"""The layers, by subject; `facula.nn` offers all of them."""

from __future__ import annotations

from facula.nn.modules import (
    activation,
    adaptive,
    attention,
    batchnorm,
    container,
    conv,
    distance,
    dropout,
    lazy,
    linear,
    loss,
    module,
    normalization,
    pooling,
    rearrange,
    rnn,
    sparse,
    transformer,
)
from facula.nn.modules.activation import *  # noqa: F403
from facula.nn.modules.adaptive import *  # noqa: F403
from facula.nn.modules.attention import *  # noqa: F403
from facula.nn.modules.batchnorm import *  # noqa: F403
from facula.nn.modules.container import *  # noqa: F403
from facula.nn.modules.conv import *  # noqa: F403
from facula.nn.modules.distance import *  # noqa: F403
from facula.nn.modules.dropout import *  # noqa: F403
from facula.nn.modules.lazy import *  # noqa: F403
from facula.nn.modules.linear import *  # noqa: F403
from facula.nn.modules.loss import *  # noqa: F403
from facula.nn.modules.module import *  # noqa: F403
from facula.nn.modules.normalization import *  # noqa: F403
from facula.nn.modules.pooling import *  # noqa: F403
from facula.nn.modules.rearrange import *  # noqa: F403
from facula.nn.modules.rnn import *  # noqa: F403
from facula.nn.modules.sparse import *  # noqa: F403
from facula.nn.modules.transformer import *  # noqa: F403

# Not as an assignment: type checkers take one that they cannot compute for an empty list.
globals()["__all__"] = sorted(
    name
    for part in (
        activation,
        adaptive,
        attention,
        batchnorm,
        container,
        conv,
        distance,
        dropout,
        lazy,
        linear,
        loss,
        module,
        normalization,
        pooling,
        rearrange,
        rnn,
        sparse,
        transformer,
    )
    for name in part.__all__
)
