"""Packs a folder as a wheel: FOLDER WHEEL NAME VERSION INFO.

The folder's bin, lib and include become those of the environment that pip installs to. INFO is a
folder with the files of the wheel's own description. All entries are sorted and have one date, so
that the same files make the same wheel.
"""

import base64
import hashlib
import os
import sys
import zipfile

folder, wheel, name, version, info = sys.argv[1:]
own = f"{name}-{version}.dist-info"


def files(root, to):
    for place, folders, names in os.walk(root):
        folders.sort()
        for entry in sorted(names):
            path = os.path.join(place, entry)
            yield path, f"{to}/{os.path.relpath(path, root)}"


record = []
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

    def add(entry, data, mode):
        item = zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0))
        item.compress_type = zipfile.ZIP_DEFLATED
        item.external_attr = (0o100000 | mode) << 16
        archive.writestr(item, data)

    parts = [(folder, f"{name}-{version}.data/data"), (info, own)]
    for path, entry in (pair for part in parts for pair in files(*part)):
        if os.path.islink(path):
            sys.exit(f"{path} is a link, which a wheel cannot have")
        with open(path, "rb") as file:
            data = file.read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{entry},sha256={digest},{len(data)}\n")
        add(entry, data, 0o755 if os.access(path, os.X_OK) else 0o644)
    record.append(f"{own}/RECORD,,\n")
    add(f"{own}/RECORD", "".join(record), 0o644)
