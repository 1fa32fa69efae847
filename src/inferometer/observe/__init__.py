"""What is watched beside the load: the engine's own metrics, the machine. Never the load's path."""
