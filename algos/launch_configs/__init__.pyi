from .shipped import launch_config as launch_config, launch_config_names as launch_config_names
