"""Dated facts about hardware and models: GPUs, model architectures, prices and power.

Every fact names its source and date; several dates of one price are kept side by side and none is
a default. Knows nothing of points, engines or measurements.
"""

from inferometer.catalog.architecture import Experts, Latent, ModelSpec, model, model_names
from inferometer.catalog.cost import Price, Provisioned, prices, provisioned_kw
from inferometer.catalog.hardware import Gpu, gpu, gpu_names
from inferometer.catalog.tables import Precision

__all__ = [
    "Experts",
    "Gpu",
    "Latent",
    "ModelSpec",
    "Precision",
    "Price",
    "Provisioned",
    "gpu",
    "gpu_names",
    "model",
    "model_names",
    "prices",
    "provisioned_kw",
]
