"""A second reader of STIDX001, written after docs/format.md alone: questions (JSON) in, answers out."""

import json, pathlib, struct, sys, zlib

DATA = pathlib.Path(sys.argv[1]).read_bytes()

def checked(data, crc, section=1, place=0):
    mark = (place * 8 + section - 1) * 2654435761 % 2**32
    return bytes(data) if zlib.crc32(data) == crc ^ mark else sys.exit("a checksum does not match")

def numbers(form, data, at=0):
    return struct.unpack_from("<" + form, data, at)

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        if data[at] < 128:
            return value, at + 1
        at, shift = at + 1, shift + 7

HEAD = checked(DATA[:508], *numbers("I", DATA, 508))
if numbers("8sHHI", HEAD) not in [(b"STIDX001", 1, 512, known) for known in (1, 3)] or numbers("Q", HEAD, 24)[0] != len(DATA):
    sys.exit("not a whole index of the layout that this reader knows")
*_, K1, B, IMPACT_MAX, UNIT = numbers("8H", HEAD, 88)
SECTIONS = [numbers("HHIQQII", HEAD, 160 + 32 * i) for i in range(6)]
RECORDS, OFFSETS, KEYS, TREE, POSTINGS, _ = [memoryview(DATA)[s[3] : s[3] + s[4]] for s in SECTIONS]

def record(number):
    page = OFFSETS[number // 64 * 388 :][:388]
    places = checked(page[:384], *numbers("I", page, 384), 2, number // 64)
    at = int.from_bytes(places[number % 64 * 6 :][:6], "little")
    crc, head_size, body_size, body_crc = numbers("IIII", RECORDS, at)
    body_at = at + 16 + head_size
    body = {} if body_size == 0xFFFFFFFF else {"body": checked(RECORDS[body_at : body_at + body_size], body_crc).decode()}
    return json.loads(checked(RECORDS[at + 4 : body_at], crc, 1, at)[12:]) | body

def get(wanted):
    for at in range(0, len(KEYS), 512):
        page = checked(KEYS[at + 4 : at + 512], *numbers("I", KEYS, at), 3, at // 512)
        pairs = [numbers("II", page, 4 + 8 * i) for i in range(numbers("I", page)[0])]
        for crc, number in pairs:
            if crc == zlib.crc32(b"i" + wanted.encode()) and record(number)["id"] == wanted:
                return record(number)

def entries(number):
    page = checked(TREE[number * 2048 + 4 : (number + 1) * 2048], *numbers("I", TREE, number * 2048), 4, number)
    at, key, found = 4, b"", {}
    for _ in range(numbers("H", page)[0]):
        (shared, at), (rest, at) = varint(page, at), varint(page, varint(page, at)[1])
        value_at = at + 1 + rest
        key = key[:shared] + page[at + 1 : value_at]
        found[key], at = page[value_at : value_at + page[at]], value_at + page[at]
    return numbers("H", page, 2)[0], found

def value_of(key):
    level, found = entries(SECTIONS[3][6 - 1])
    while level > 0:
        below = [value for first, value in found.items() if first <= key] or list(found.values())
        level, found = entries(*numbers("I", below[-1 if key >= min(found) else 0]))
    return found.get(key)

def postings(key, scored):
    """[(record, impact, fields)] and the weight of a term; records alone for the value of a field."""
    value = value_of(key) or bytes(5)
    count, at = varint(value, 0)
    weight, at = (numbers("H", value, at)[0], at + 3) if scored else (0, at)
    size, at = varint(value, at)
    place, crc_at = varint(value, at) if size > 64 else (0, 0)
    data = checked(POSTINGS[place : place + size], *numbers("I", value, crc_at)) if size > 64 else value[at:]
    at, number, found = (9 * -(-count // 128) if count > 128 else 0), -1, []
    for block in [min(128, count - start) for start in range(0, count, 128)]:
        impacts, fields = data[at:], data[at + block :]
        at += block + (block + 1) // 2 if scored else 0
        for i in range(block):
            gap, at = varint(data, at)
            number += gap + 1
            found.append((number, impacts[i], fields[i // 2] >> i % 2 * 4 & 15) if scored else (number, 0, 0))
    return found, weight

def search(terms):
    scores = {}
    for (found, weight), percent in [(postings(term.encode(), True), percent) for term, percent in terms]:
        for number, impact, _ in found:
            scores[number] = scores.get(number, 0) + impact * max(1, weight * percent // 100)
    best = sorted(scores.items(), key=lambda score: (-score[1], score[0]))[:10]
    unit = IMPACT_MAX * UNIT * 100
    shown = lambda score: (2 * score * 10000 * (K1 + 100) + unit) // (2 * unit) / 10000
    return len(scores), [[record(number)["id"], shown(score)] for number, score in best]

QUESTIONS = json.load(sys.stdin)
FILTERS = [postings(b"\x01%b\0%b" % (name.encode(), value.encode()), False)[0] for name, value in QUESTIONS["values"]]
ANSWERS = {
    "records": [record(number) for number in range(SECTIONS[0][2])],
    "get": [get(wanted) for wanted in QUESTIONS["get"]],
    "search": [search(terms) for terms in QUESTIONS["search"]],
    "values": [[record(number)["id"] for number, _, _ in found] for found in FILTERS],
    "lexicon": [varint(value_of(b"\x02" + word.encode()) or b"\0", 0)[0] for word in QUESTIONS["lexicon"]],
}
json.dump(ANSWERS, sys.stdout)
