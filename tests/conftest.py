"""What every test has around it."""

import os

# No test may ask a provider of whoever runs the suite, here or in a child process.
for _name in [name for name in os.environ if name.startswith("OMNIGRAPH_EMBED")]:
    del os.environ[_name]
for _name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
    os.environ.pop(_name, None)

pytest_plugins = ["tests.fixtures_s3"]
