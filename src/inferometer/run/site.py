"""What is particular to the place where engines are started: paths of models, and whether and how
containers are used. Nothing of it is part of a point or its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.engine.container import Container


@dataclass(frozen=True, slots=True)
class Site:
    """Where engines run. `models` are paths by the model's name in a config, `places` are values of
    further placeholders: `repo`, `workspace`.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    models_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    container: Container | None = None
    ready_timeout_s: float = 1_800.0

    def model_path(self, model: str) -> str:
        """The path of a model's weights: its own, else below the directory of models, else its
        name, which an engine takes for one of a hub.
        """
        if (path := self.models.get(model)) is not None:
            return path
        return model if self.models_dir is None else str(Path(self.models_dir) / model)
