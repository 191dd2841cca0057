from __future__ import annotations

from pathlib import Path

import pytest

from tuner.model.errors import UsageError
from tuner.store.filesystem import network_filesystem, require_local

MOUNTS = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:40 / /home rw,relatime shared:5 - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/me/local rw - xfs /dev/vdb rw
32 22 0:42 / /scratch rw shared:6 master:2 - lustre 10.0.0.1@tcp:/scratch rw
33 22 0:43 / /mnt/my\040share rw - cifs //server/share rw
34 22 0:44 / /over rw - ext4 /dev/vdc rw
35 22 0:45 / /over rw - nfs server:/over rw
36 22 0:46 / /ssh rw - fuse.sshfs me@host: rw
37 22 0:47 / /tmp rw - tmpfs tmpfs rw
a line of another kind
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x.db", None),
        ("/home/me/x.db", "nfs4"),
        ("/homely/x.db", None),
        ("/home/me/local/x.db", None),
        ("/scratch/x.db", "lustre"),
        ("/mnt/my share/x.db", "cifs"),
        ("/over/x.db", "nfs"),
        ("/ssh/x.db", "fuse.sshfs"),
        ("/tmp/x.db", None),
    ],
)
def test_the_longest_mount_point_counts(path: str, kind: str | None) -> None:
    assert network_filesystem(Path(path), MOUNTS) == kind


def test_the_refusal_names_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"nfs4") as caught:
        require_local(Path("/home/me/x.db"), lambda: MOUNTS)
    assert "--storage" in caught.value.hint
