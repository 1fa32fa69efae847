"""When requests are sent and by whom: lanes and pacing, the streaming client, its self-watch."""
