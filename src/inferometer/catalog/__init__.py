"""Dated facts: GPUs, model architectures, prices and power, what engines call their metrics.

Every fact names its source and date; several dates of one price are kept side by side and none is
a default. Knows nothing of points or measurements.
"""

from inferometer.catalog.architecture import Experts, Latent, ModelSpec, model, model_names
from inferometer.catalog.cost import Price, Provisioned, prices, provisioned_kw
from inferometer.catalog.families import SERIES, Engine, Option, engines, family_options
from inferometer.catalog.hardware import Gpu, gpu, gpu_names
from inferometer.catalog.tables import Precision

__all__ = [
    "SERIES",
    "Engine",
    "Experts",
    "Gpu",
    "Latent",
    "ModelSpec",
    "Option",
    "Precision",
    "Price",
    "Provisioned",
    "engines",
    "family_options",
    "gpu",
    "gpu_names",
    "model",
    "model_names",
    "prices",
    "provisioned_kw",
]
