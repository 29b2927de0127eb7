"""What is wrong with a declaration, found without reading a row."""

from omnigraph.pipelines.check.validation import find_mistakes as find_mistakes
from omnigraph.pipelines.check.validation import validate as validate
