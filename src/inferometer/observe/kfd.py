"""Who uses an AMD GPU, by the kernel's own list: /sys/class/kfd, which amd-smi reads too."""

from __future__ import annotations

from pathlib import Path

KFD = Path("/sys/class/kfd/kfd/proc")


def kfd_users(gpu_id: str, folder: Path = KFD) -> tuple[int, ...] | None:
    """Process ids that hold memory on the GPU of that id, ascending; None where the kernel has no
    such list. A process that ends on the way holds nothing.
    """
    try:
        users = [entry for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return None
    return tuple(sorted(int(user.name) for user in users if _holds(user / f"vram_{gpu_id}")))


def _holds(file: Path) -> bool:
    try:
        return int(file.read_text()) > 0
    except (OSError, ValueError):
        return False
