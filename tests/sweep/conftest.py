from support.run_folders import runs, store

__all__ = ["runs", "store"]
