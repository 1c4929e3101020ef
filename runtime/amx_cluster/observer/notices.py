"""A host that is to be taken back: the notice of its metadata service, and a checkpoint of all ranks before it goes."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from amx_cluster.observer.rank import Rank, group
from ansible_collections.amx.cluster.plugins.module_utils._clock import CLOCK, Clock
from ansible_collections.amx.cluster.plugins.module_utils._jobs import wire

TOKEN, METADATA = "/latest/api/token", "/latest/meta-data"
ACTION, INSTANCE = f"{METADATA}/spot/instance-action", f"{METADATA}/instance-id"
# What the address of a notice begins with that the supervisor writes, in a batch job before its time limit.
FILE = "file:"
LIFETIME = 21600  # seconds that a token is valid, the most there is
# Where the ranks agree, in the store of their group, on the step after which they save.
KEY = "amx_cluster/leaves_after"


class Notices:
    """Announcements of the host's metadata service, in the form of EC2 (IMDSv2), and what the ranks do about it.

    docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html: there is a notice two minutes
    before, {"action": "terminate", "time": "2026-11-25T12:00:00Z"}; without one the answer is 404.
    """

    SECONDS = 5.0  # between two questions, as is recommended there
    TIMEOUT = 2.0
    PATIENCE = 3  # questions without an answer before that is reported

    def __init__(self, rank: Rank, clock: Clock = CLOCK) -> None:
        self.rank, self.clock = rank, clock
        # {action, time, instance} of the notice, and why there may be one that is not seen.
        self.notice: dict[str, str] | None = None
        self.problem = ""
        # The step after which all ranks save, and whether this one has.
        self.step: int | None = None
        self.saved = False
        self._token = ""
        self._asked = 0.0
        self._unanswered = 0

    def look(self) -> None:
        """Ask, if it is time, on the host's first rank."""
        if not self.rank.notices or not self.rank.is_first or self.notice:
            return
        if self._asked and self.clock.monotonic() - self._asked < self.SECONDS:
            return
        self._asked = self.clock.monotonic()
        try:
            self.notice = self._ask()
            self._unanswered, self.problem = 0, ""
        except Exception as error:
            self._unanswered += 1
            if self._unanswered >= self.PATIENCE:
                self.problem = f"{self.rank.notices}: {error or type(error).__name__}"

    def _ask(self) -> dict[str, str] | None:
        """Return the notice, None without one. Raises OSError, HTTPException, ValueError."""
        written = self._written() if self.rank.notices.startswith(FILE) else self._get(ACTION)
        if written is None:
            return None
        notice = json.loads(written)
        if self.rank.notices.startswith(FILE):
            return {name: str(notice[name]) for name in ("action", "time")}
        return {**{name: str(notice[name]) for name in ("action", "time")}, "instance": self._get(INSTANCE) or ""}

    def _written(self) -> str | None:
        """Return what the job's supervisor has written into its directory, which all hosts share; None for nothing."""
        with contextlib.suppress(FileNotFoundError), open(self.rank.notices[len(FILE) :], encoding="utf-8") as stream:
            return stream.read()
        return None

    def _get(self, path: str) -> str | None:
        """Return what is at a path, None where nothing is. Raises OSError, HTTPException, ValueError."""
        status, text = 401, ""
        if self._token:
            status, text = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status == 401:
            status, self._token = self._request("PUT", TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": str(LIFETIME)})
            if status != 200:
                self._token = ""
                raise ValueError(f"{TOKEN} answers {status}")
            status, text = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status not in (200, 404):
            raise ValueError(f"{path} answers {status}")
        return text if status == 200 else None

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        import http.client

        address = self.rank.notices.partition("://")[2].rstrip("/")
        with contextlib.closing(http.client.HTTPConnection(address, timeout=self.TIMEOUT)) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(10_000).decode()

    def is_due(self, step: int) -> bool:
        """Return whether all ranks save after this step, which has just ended here.

        A rank whose host leaves sets the next step, which no other rank has ended yet: its gradients are reduced with
        this one. The others look after every step, and so see it in time.
        """
        if not self.rank.notices or not self.rank.speaks():
            return False
        if self.step is None:
            with contextlib.suppress(Exception):
                self.step = self._agreed(step)
        return step == self.step

    def _agreed(self, step: int) -> int | None:
        c10d = group()
        if c10d is None:
            return step if self.notice else None
        store: Any = c10d._get_default_store()
        if self.notice:
            return int(store.compare_set(KEY, "", str(step + 1)))
        return int(store.get(KEY)) if store.check([KEY]) else None

    def note_saved(self, step: int) -> None:
        """Note that this rank has saved its part of the checkpoint of a step."""
        self.saved = self.saved or step == self.step

    def tell(self, message: wire.Heartbeat) -> None:
        """Put into a heartbeat what there is to tell."""
        if self.notice:
            message["leaves"] = self.notice
        if self.problem:
            message["unnoticed"] = self.problem
        if self.saved and self.step is not None:
            message["saved"] = self.step
