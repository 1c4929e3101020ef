"""Use jobs as a person does over days: see journeys/, each of which says what it shows.

Called by verify.yml, see tests/support/cluster.py. Exits with 1 when something was not as it should be.
"""

from __future__ import annotations

import sys

from journeys import (
    away,
    decoder,
    example,
    inference,
    installed,
    killed_rank,
    login_variables,
    prediction,
    project,
    published,
    queue,
    reboot,
    refusals,
    same_result,
    scaling,
    secret,
    serving,
    sharding,
    slow_network,
)
from support.cluster import HEAD, on, until
from support.journeys import make

# One after another; what stands together runs at the same time, on different hosts.
JOURNEYS = [
    [same_result.on_one_host, same_result.on_two_hosts],
    [same_result.a_second_time],
    [same_result.killed_on_two_hosts],
    [same_result.on_three_hosts_and_compared],
    [away.away],
    [away.results_are_fetched],
    [queue.jobs_wait_for_hosts],
    [reboot.reboot],
    [example.example],
    [killed_rank.torchrun_goes_on_after_a_killed_rank],
    [decoder.lora_goes_on_after_a_killed_rank_and_is_merged],
    [decoder.all_weights_learn_on_three_hosts],
    [sharding.what_does_not_fit_is_refused],
    [sharding.shards_go_on_on_three_hosts_and_on_two],
    [sharding.shards_go_on_with_mpi],
    [refusals.what_contradicts_a_decoder_is_refused_with_its_row_or_name],
    [installed.an_installed_collection_trains],
    [serving.all_hosts_serve_a_model],
    [project.a_project_trains],
    [secret.secrets_reach_the_ranks_and_nothing_else],
    [login_variables.what_a_login_sets_does_not_reach_ranks],
    [scaling.a_sweep_is_interrupted_and_continued],
    [inference.every_task_is_measured_in_every_precision],
    [prediction.an_instance_is_killed],
    [prediction.a_prediction_is_interrupted_and_continued],
    [published.published_jobs_train],
    [slow_network.nobody_is_named_where_hosts_are_alike],
    [slow_network.a_slow_host_is_named_and_no_other],
]
# What only `make test-all` runs, and why.
AT_LENGTH = {
    decoder.lora_goes_on_after_a_killed_rank_and_is_merged: "the same on one host is in the integration tests",
    decoder.all_weights_learn_on_three_hosts: "the same on one host is in the integration tests",
    sharding.what_does_not_fit_is_refused: "figures and refusals are in test_memory_check.py",
    sharding.shards_go_on_on_three_hosts_and_on_two: "test_sharding.py shards over two hosts, and goes on on one",
    sharding.shards_go_on_with_mpi: "two ranks of one host are in test_sharding.py",
    refusals.what_contradicts_a_decoder_is_refused_with_its_row_or_name: "its messages are in test_decoder.py",
    same_result.a_second_time: "the same seed on other hosts is compared; earlier directories are in the unit tests",
    reboot.reboot: "a power cut of the head is made in the scenario faults, other journeys stop and continue jobs",
    example.example: "what refuses such a script is in the integration tests",
    slow_network.nobody_is_named_where_hosts_are_alike: "beside a slow host, the others are not named, either",
    slow_network.a_slow_host_is_named_and_no_other: "who is named is in the unit tests, of figures as these",
    prediction.an_instance_is_killed: "a killed rank is in torchrun's journey, two hosts in test_prediction_runner.py",
    prediction.a_prediction_is_interrupted_and_continued: "one that lost its output goes on in test_predict.py",
    login_variables.what_a_login_sets_does_not_reach_ranks: "a login on the head is in test_own_env.py",
    secret.secrets_reach_the_ranks_and_nothing_else: "the same on one host is in the integration tests",
    published.published_jobs_train: "it needs transformers' example scripts, and takes half an hour",
    project.a_project_trains: "a project is sent, installed and trained with in the integration tests",
    inference.every_task_is_measured_in_every_precision: "the same on one host is in the integration tests",
}


def free_the_hosts() -> None:
    """End what a journey that went wrong has left, so that the next one finds free hosts."""
    on(HEAD, "pkill -f ' supervise '")
    until(lambda: not on(HEAD, "pgrep -f ' supervise '").strip(), 60)


if __name__ == "__main__":
    sys.exit(make(JOURNEYS, free_the_hosts, AT_LENGTH))
