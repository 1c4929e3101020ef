# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The request of a prediction; the arguments are plugin_utils/predictions.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  job:
    description: The job that trained the model, its name or its file. Either this or O(model) is required.
    type: str
    default: ""
  model:
    description: A directory with a model, on the control node, or C(head:PATH).
    type: str
    default: ""
  data:
    description: The CSV, JSON lines or Parquet file, on the control node, or C(head:PATH).
    type: str
    default: ""
  setting:
    description:
      - How the model is run. A file such as the C(recommended-MODEL.yml) that C(playbooks/infer.yml) writes, or a
        mapping with its entries.
    type: raw
  task:
    description: The task of the model. It must be the one that the model was trained for.
    type: str
    default: ""
  columns:
    description: The columns that the model reads, a list or text such as V(question,context).
    type: raw
    default: []
  predict_name:
    description: The name of the prediction, without C(-predict). By default that of the job or directory.
    type: str
    default: ""
  output_file:
    description: A file on the control node, which must not exist, for the output.
    type: str
    default: ""
  override:
    description: A mapping of fields of the job of the prediction, such as C(hosts).
    type: raw
  hosts:
    description: The hosts of the cluster, the head first.
    type: list
    elements: str
    required: true
  results:
    description: The directory on the control node with results. The prediction is in C(NAME-predict) there.
    type: path
    required: true
  program:
    description: The directory with the program of the ranks.
    type: path
    required: true
  again:
    description: Whether a prediction of this name that there is already is moved aside.
    type: bool
    default: false
"""
