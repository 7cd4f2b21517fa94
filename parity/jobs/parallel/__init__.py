"""Networks that run on several processes, compared with the same network on one."""
