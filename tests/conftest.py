pytest_plugins = ["tests.fixtures_s3"]
