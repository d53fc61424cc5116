/** The types that the parts of local search share: records, terms, parsed queries, answers. */

/** The fields whose words are searched, in the order of their weights (title 60, slug 40, path 35, body 15). */
export type TextField = 'title' | 'slug' | 'path' | 'body'

/** One line of the input, checked. Strings are '' where the line has none. */
export interface SearchRecord {
  /** As given, never changed; null where the line has none: the builder makes one. */
  id: string | null
  title: string
  slug: string
  /** `path`, else `mind_path`. */
  path: string
  body: string
  /** `updated_at` in milliseconds since 1970; 0 where it is missing or no time. */
  updatedAtMs: number
  /** The object as it was given, every field of it in its order: what `get` returns. */
  source: Readonly<Record<string, unknown>>
}

/** Why a line was not taken. */
export interface JsonlFault {
  /** Counted from 1. */
  line: number
  message: string
}

export interface JsonlHandlers {
  record(record: SearchRecord, line: number): void
  /** The line is skipped; throwing here stops the reading (`--strict`). */
  fault(fault: JsonlFault): void
  /** After every chunk; `total` is 0 where the size is not known (standard input). */
  progress?(readBytes: number, totalBytes: number): void
}

/** `jsonl.ts` exports `readJsonl`: synchronous, in bounded memory; `-` is standard input. */
export type ReadJsonl = (file: string, handlers: JsonlHandlers) => void

/**
 * Called once for each term of a word. Words have rising positions from 0; several terms may have one position (stem,
 * exact form, camelCase parts, C++ with its sign): the first call of a position is its base term, and the length of a
 * field is its number of base terms. `surface` is the normalised word before stemming: the lexicon of prefixes and of
 * corrections holds it, and phrases compare it; '' for extra terms that no prefix, phrase or correction may find.
 * Terms hold no character below U+0020 and at most 255 bytes of UTF-8.
 */
export type EmitTerm = (term: string, position: number, surface: string) => void

/** A term of one word, in the order of positions. */
export interface WordTerm {
  readonly term: string
  readonly surface: string
  /** True for the base term of a position. */
  readonly opens: boolean
  /** The exact form; to be taken, too, where the field has them. */
  readonly exact: WordTerm | null
}

/** `analysis/analyzer.ts` exports `analyzer: Analyzer`. */
export interface Analyzer {
  /** Written into the index; a search refuses an index of another analyser or version. */
  readonly id: string
  /** 1 to 65535; rises with every change of the emitted terms. */
  readonly version: number
  analyzeField(text: string, field: TextField, emit: EmitTerm): void
  /** The terms of one word, as `wordEnd` finds it, for callers that remember the words of many texts. */
  termsOfWord(word: string): readonly WordTerm[]
  /** Whether the terms of a field's words come with their exact forms. */
  hasExactForms(field: TextField): boolean
  /** The form in which titles, slugs and values of filters are compared: folded case and marks, single spaces. */
  fold(text: string): string
  /** The terms under which a word of the lexicon is found: its stem, and its exact form where that is a term, too. */
  termsOf(surface: string): QueryTerm[]
}

export interface QueryTerm {
  term: string
  /** Share of its weight in the score, 1 to 100; the terms of a word are added up. */
  percent: number
}

/**
 * One word; a record that holds any of its terms holds the word. Phrases and filters require more of C++: the term with
 * the sign.
 */
export interface QueryWord {
  /** As typed, for `corrected`. */
  text: string
  /** As it would be in the lexicon; '' where no correction is tried. */
  surface: string
  terms: QueryTerm[]
}

/** Words that must be next to each other in one field. */
export interface QueryPhrase {
  text: string
  /** One a position, at least one. */
  words: QueryWord[]
}

/** Words that begin so. */
export interface QueryPrefix {
  text: string
  /** Beginning of surfaces, at least one character. */
  prefix: string
}

/** A condition for records: words in a text field, or a value in any other one (`tag` is `tags`). */
export type QueryFilter =
  | { kind: 'words'; field: TextField; text: string; words: QueryWord[] }
  | { kind: 'value'; field: string; text: string }

/**
 * `query/parse.ts` exports `parseQuery(text, analyzer, isField): ParsedQuery`; `isField(name)` says whether
 * the index knows values of that field (text fields are always known). Words and prefixes are alternatives; phrases and
 * filters are required, unless they match nothing. Phrases and filters by words score with their words.
 */
export interface ParsedQuery {
  text: string
  words: QueryWord[]
  phrases: QueryPhrase[]
  prefixes: QueryPrefix[]
  filters: QueryFilter[]
}

export type ParseQuery = (text: string, analyzer: Analyzer, isField: (name: string) => boolean) => ParsedQuery

/** One result of a search, as `--json` prints it. */
export interface SearchHit {
  id: string
  score: number
  title: string | null
  slug: string | null
  path: string | null
  field_score: number
  matched_fields: TextField[]
  payload: Record<string, unknown>
}

export interface SearchAnswer {
  query: string
  total: number
  took_ms: number
  /** Words without a hit, and the words searched in their place. */
  corrected?: Record<string, string>
  /** A phrase or filter of the query matched nothing: its words were searched in its place. */
  relaxed?: true
  results: SearchHit[]
}

/**
 * `index-file.ts` exports `openIndex(file): LocalIndex`; `build.ts` exports
 * `buildIndex({ input, output, strict?, onFault?, onProgress? }): BuildReport`. Both are synchronous.
 */
export interface LocalIndex {
  search(query: string, options?: SearchOptions): SearchAnswer
  /** Null where the index has no such id. */
  get(id: string): Record<string, unknown> | null
  stats(): IndexStats
  close(): void
}

export interface SearchOptions {
  /** Default 10. */
  limit?: number
  collection?: string
  status?: string
  tag?: string
  scoring?: ScoringName
}

export type ScoringName = 'bm25' | 'literal'

export interface IndexStats {
  format: string
  layout: number
  records: number
  terms: number
  /** Different words as they are written. */
  lexicon: number
  postings: number
  /** By field. */
  words: Record<string, number>
  bytes: number
  /** Bytes by section. */
  sections: Record<string, number>
  analyzer: { id: string; version: number }
}

export interface BuildReport {
  records: number
  /** Lines that replaced an earlier one with the same id. */
  duplicates: number
  /** Lines that were skipped. */
  faults: number
  bytes: number
}
