"""Dated facts about hardware, models and engines: GPUs, architectures, acceptance of drafts,
prices, power, the flags that engines take and what they call their metrics.

Every fact names its source and date; several dates of one price are kept side by side and none is
a default. Knows nothing of points or measurements.
"""

from typing import TYPE_CHECKING

from inferometer.catalog.acceptance import (
    Acceptance,
    AcceptanceTable,
    Curve,
    acceptance,
    acceptance_curves,
    installed_acceptance,
)
from inferometer.deferred import by_name

if TYPE_CHECKING:
    from inferometer.catalog.architecture import (
        Experts,
        Latent,
        ModelFigures,
        ModelSpec,
        figures,
        model,
        model_names,
    )
    from inferometer.catalog.cost import Price, Provisioned, prices, provisioned_kw
    from inferometer.catalog.facts import Facts, installed_facts
    from inferometer.catalog.families import SERIES, Engine, Option, engines, family_options
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
    from inferometer.catalog.tables import PRECISIONS, Precision

__all__ = [
    "PRECISIONS",
    "SERIES",
    "Acceptance",
    "AcceptanceTable",
    "Curve",
    "Engine",
    "Experts",
    "Facts",
    "FlagOption",
    "FlagRules",
    "FlagSchema",
    "Gpu",
    "Latent",
    "ModelFigures",
    "ModelSpec",
    "Option",
    "Precision",
    "Price",
    "Provisioned",
    "acceptance",
    "acceptance_curves",
    "engines",
    "family_options",
    "figures",
    "flag_schemas",
    "gpu",
    "gpu_names",
    "installed_acceptance",
    "installed_facts",
    "model",
    "model_names",
    "prices",
    "provisioned_kw",
    "recorded_flags",
    "version_order",
    "written_flags",
]

# Most processes need one table or two. Names that their modules have too cannot wait.
__getattr__ = by_name(
    __name__,
    {
        "architecture": "Experts Latent ModelFigures ModelSpec figures model model_names",
        "cost": "Price Provisioned prices provisioned_kw",
        "facts": "Facts installed_facts",
        "families": "SERIES Engine Option engines family_options",
        "flags": "FlagOption FlagRules FlagSchema"
        " flag_schemas recorded_flags version_order written_flags",
        "hardware": "Gpu gpu gpu_names",
        "tables": "PRECISIONS Precision",
    },
)
