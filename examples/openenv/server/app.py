"""The restaurant as an OpenEnv server: `uvicorn server.app:app` in the folder above, or `python -m server.app`."""

from toolorchestra.envs.bridges.openenv import make_app, serve

app = make_app("ToolOrchestra-Restaurant-v0")


def main() -> None:
    serve(app, "0.0.0.0", 8000)


if __name__ == "__main__":
    main()
