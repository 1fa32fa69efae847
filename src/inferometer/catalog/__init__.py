"""Dated facts about hardware, models and engines: GPUs, model architectures, prices and power, and
the flags that engines take.

Every fact names its source and date; several dates of one price are kept side by side and none is
a default. Knows nothing of points or measurements.
"""

from inferometer.catalog.architecture import Experts, Latent, ModelSpec, model, model_names
from inferometer.catalog.cost import Price, Provisioned, prices, provisioned_kw
from inferometer.catalog.flags import (
    FlagOption,
    FlagRules,
    FlagSchema,
    flag_schemas,
    recorded_flags,
    version_order,
    written_flags,
)
from inferometer.catalog.hardware import Gpu, gpu, gpu_names
from inferometer.catalog.tables import Precision

__all__ = [
    "Experts",
    "FlagOption",
    "FlagRules",
    "FlagSchema",
    "Gpu",
    "Latent",
    "ModelSpec",
    "Precision",
    "Price",
    "Provisioned",
    "flag_schemas",
    "gpu",
    "gpu_names",
    "model",
    "model_names",
    "prices",
    "provisioned_kw",
    "recorded_flags",
    "version_order",
    "written_flags",
]
