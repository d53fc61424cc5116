"""Keeps a copy of the hub's notes in a SQLite file, over HTTP, with Python's own library alone.

    python3 notes_copy.py http://127.0.0.1:8081 agent-key.txt notes.sqlite

It may be killed at any moment, and so may the platform: the position is kept in the transaction of the notes.
    select note from notes where status = 'active'
"""

import http.client
import json
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

base_url, key_file, copy_file = sys.argv[1:4]
copy = sqlite3.connect(copy_file)
copy.execute(
    "create table if not exists notes"
    " (id integer primary key, version integer not null, status text not null, note text not null)"
)
copy.execute("create table if not exists progress (topic text primary key, position text not null)")


def call(path, body=None, token=None):
    request = urllib.request.Request(base_url + path, json.dumps(body).encode() if body else None)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def sign_in():
    with open(key_file) as file:
        traded = call("/api/v1/auth/agent", {"key": file.read().strip()})
    exchange = "/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken?key=any"
    return call(exchange, {"token": traded["data"]["customToken"], "returnSecureToken": True})["idToken"]


def read_page(token):
    row = copy.execute("select position from progress where topic = 'hub.records'").fetchone()
    query = {"from": row[0] if row else "beginning", "limit": 500, "wait": 20}
    path = "/api/v1/log/topics/hub.records/records?" + urllib.parse.urlencode(query)
    return call(path, token=token)["data"]


def apply_page(page):
    with copy:  # One transaction: all of it, or nothing.
        for record in page["records"]:
            kind, number = record["key"].split("/")
            note = record["value"]
            if kind != "note":
                continue
            if note is None:  # A tombstone: there is no such note any more.
                copy.execute("delete from notes where id = ?", (int(number),))
                continue
            copy.execute(
                "insert into notes values (?, ?, ?, ?) on conflict (id) do update set"
                " version = excluded.version, status = excluded.status, note = excluded.note"
                " where excluded.version >= notes.version",  # The platform may publish a state twice.
                (note["id"], note["version"], note["status"], json.dumps(note)),
            )
        copy.execute("insert or replace into progress values ('hub.records', ?)", (page["next"],))


def begin_again():
    with copy:
        copy.execute("delete from notes")
        copy.execute("delete from progress")


token = None
while True:
    try:
        token = token or sign_in()
        apply_page(read_page(token))
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        if problem.get("code") == "position_expired":  # For example after `topics grow`.
            begin_again()
        elif error.code == 401:
            token = None
            time.sleep(1)
        elif error.code in (429, 502, 503, 504):
            time.sleep(problem.get("retryAfter", 1))
        else:
            raise SystemExit(f"{problem.get('code')}: {problem.get('detail')}")
    except (OSError, http.client.HTTPException, ValueError):  # The platform is away.
        time.sleep(1)
