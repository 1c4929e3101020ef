"""The settings of Sphinx for the site that tools/docs_site.py builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx

_GALAXY = yaml.safe_load((Path(__file__).parent / "galaxy.yml").read_text(encoding="utf-8"))

project = "amx.cluster"
author = "The amx.cluster maintainers"
version = release = _GALAXY["version"]
html_title = f"amx.cluster {release}"

extensions = ["myst_parser", "sphinx_antsibull_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Headings get the anchors that GitHub gives them, so that the links of the pages work in both places.
myst_heading_anchors = 4
highlight_language = "text"
# Options stay as they are typed: no dash for "--", no curly quotes.
smartquotes = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False

# Labels of Ansible's own documentation that generated pages refer to. Its inventory of labels is not downloaded, so
# that the site can be built without internet access.
_ANSIBLE = "https://docs.ansible.com/ansible/latest"
_LABELS = {
    "ansible_configuration_settings": f"{_ANSIBLE}/reference_appendices/config.html",
    "action_plugins": f"{_ANSIBLE}/plugins/action.html",
    "callback_plugins": f"{_ANSIBLE}/plugins/callback.html",
    "ANSIBLE_STDOUT_CALLBACK": f"{_ANSIBLE}/reference_appendices/config.html#envvar-ANSIBLE_STDOUT_CALLBACK",
    "common_return_values": f"{_ANSIBLE}/reference_appendices/common_return_values.html",
}


def ansible_label(app: Sphinx, environment: Any, node: Any, content: Any) -> Any:
    """Return a link for a label of Ansible's documentation, and nothing for others, which are then reported."""
    label = node.get("reftarget", "")
    address = _LABELS.get(label)
    if label.startswith("ansible_collections.") and not label.startswith("ansible_collections.amx."):
        namespace, collection, plugin = label.split(".")[1:4]
        address = f"{_ANSIBLE}/collections/{namespace}/{collection}/{plugin}.html"
    return nodes.reference("", "", content, refuri=address, internal=False) if address else None


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("missing-reference", ansible_label)
