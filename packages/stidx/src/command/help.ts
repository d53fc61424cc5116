/** The help texts of the commands. */

const indexOption = '  --index FILE         the index (default: $STIDX_INDEX, then ./index.stidx)'
const jsonOption = '  --json               print one JSON document'
const exitCodes = 'Exit codes: 0 found, 1 nothing found, 2 wrong use or a file that cannot be used.'

export const helpTexts: Readonly<Record<string, string>> = {
  'index-jsonl': `Usage: index-jsonl --input FILE --output FILE

Builds an index from records, one JSON object a line: id, title, slug, path (or mind_path), body, and any other fields.
The old index stays as it is until the new one is whole.

Options:
  --input FILE         the records; - reads standard input
  --output FILE        the index to write
  --strict             stop at the first faulty line instead of skipping it
  --force              replace an output that is a file, but no index
${jsonOption}

Example:
  $ stidx index-jsonl --input notes.jsonl --output index.stidx`,
  search: `Usage: search [options] QUERY

Words are alternatives; the records that fit best come first. "quoted words" must be next to each other, word* is a
beginning, field:value must hold (title, slug, path, body, or any field of the records). Quoted words or a value that
match nothing count as words, a word that no record has is corrected by one letter, and the answer says so.

Options:
  --limit N            how many results (default 10, at most 10000)
  --collection NAME    only records of this collection
  --status STATUS      only records with this status
  --tag TAG            only records with this tag
  --scoring NAME       bm25 (default) or literal: the plain sum of 60, 40, 35 and 15
${indexOption}
${jsonOption}

Example:
  $ stidx search 'deploy "blue green" status:active' --limit 5`,
  get: `Usage: get [options] ID

Prints the record with this id.

Options:
${indexOption}
${jsonOption}

Example:
  $ stidx get STIDX001-7d0c`,
  stats: `Usage: stats [options] [FILE]

Says what an index holds.

Options:
${indexOption}
${jsonOption}

Example:
  $ stidx stats index.stidx`,
}

export const overview = `Usage: stidx COMMAND

  index-jsonl --input FILE --output FILE    builds an index
  search QUERY [--limit N]                  finds records by words
  get ID                                    prints one record
  stats [FILE]                              says what an index holds

stidx COMMAND --help says more. ${exitCodes}`
