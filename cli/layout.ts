/** Lays out results: tables that fit the terminal, aligned fields, times as people say them, colours of states. */

import stringWidth from 'string-width'
import { indented, keepingLines, oneLine, type Paint, type Style, visibleJson } from '#lib/terminal-text.ts'
import type { Cell, Shown } from '#operations/action.ts'

/** Where a result is shown. */
export interface Screen {
  /** Infinity where nothing is cut. */
  columns: number
  /** In ms; undefined where times are shown in full. */
  now: number | undefined
  paint: Paint
}

/** A pipe or a file. */
export const unlimited: Screen = {
  columns: Number.POSITIVE_INFINITY,
  now: undefined,
  paint: (_, text) => text,
}

/** Values of others cannot end a line, act on the terminal or colour it. */
export function layOut(shown: Shown, screen: Screen = unlimited): string {
  const cut = { any: false }
  const text = partOf(shown, screen, cut)
  return cut.any
    ? `${text}\n${screen.paint('dim', 'cut to the width of the terminal: --wide shows all')}`
    : text
}

function partOf(shown: Shown, screen: Screen, cut: { any: boolean }): string {
  if (typeof shown === 'string') return oneLine(shown)
  if ('lines' in shown) return keepingLines(shown.lines)
  if ('fields' in shown) return fieldsOf(shown, screen)
  if ('documents' in shown) {
    return shown.documents.map((one) => visibleJson(JSON.stringify(one, null, 2))).join('\n')
  }
  if ('head' in shown) return tableOf(shown, screen, cut)
  return shown
    .map((one, n) => `${n === 0 ? '' : gapBehind(shown[n - 1]!)}${partOf(one, screen, cut)}`)
    .join('')
}

function gapBehind(shown: Shown): string {
  return typeof shown === 'string' ? '\n' : '\n\n'
}

/** `name  value` lines, aligned; those of `texts` may have further lines, which are indented. */
function fieldsOf(
  { fields, texts = [] }: { fields: object; texts?: readonly string[] },
  screen: Screen,
): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => {
      const text = textOf(value)
      const shown = texts.includes(name)
        ? indented(text, ' '.repeat(width + 2))
        : painted(name, oneLine(isTimeField.test(name) ? timeOf(text, screen) : text), screen)
      return `${screen.paint('dim', name)}${' '.repeat(width - name.length)}  ${shown}`
    })
    .join('\n')
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

const gap = 2

function tableOf(
  { head, rows, wrap }: { head: readonly string[]; rows: readonly (readonly Cell[])[]; wrap?: true },
  screen: Screen,
  cut: { any: boolean },
): string {
  const all = head.map((name, n) =>
    columnOf(
      name,
      rows.map((row) => row[n] ?? null),
      screen,
    ),
  )
  const isTooWide = widthOf(all) > screen.columns
  const columns = isTooWide ? all.filter(({ isEmpty }) => !isEmpty) : all
  const widths = fittedTo(screen.columns - gap * (columns.length - 1), columns)
  cut.any ||= columns.length < all.length || (!wrap && widths.some((width, n) => width < columns[n]!.width))
  const lineOf = (cells: string[], paint: (cell: string, column: Column) => string) =>
    cells
      .map((cell, n) => {
        const column = columns[n]!
        return aligned(paint(cell, column), stringWidth(cell), widths[n]!, column.kind)
      })
      .join(' '.repeat(gap))
      .trimEnd()
  const headLine = lineOf(
    columns.map(({ name }, n) => shortened(name, widths[n]!)),
    (name) => screen.paint('bold', name),
  )
  const rowLines = rows.flatMap((_, row) => {
    const cells = columns.map(({ cells }, n) =>
      wrap ? wrapped(cells[row]!, widths[n]!) : [shortened(cells[row]!, widths[n]!)],
    )
    const height = Math.max(...cells.map((lines) => lines.length))
    return Array.from({ length: height }, (_, line) =>
      lineOf(
        cells.map((lines) => lines[line] ?? ''),
        // The colour is that of the whole word, also where it is cut.
        (cell, column) => painted(column.name, cell, screen, column.cells[row]),
      ),
    )
  })
  return [headLine, ...rowLines].join('\n')
}

/** Which gives way first when the terminal is narrow: sentences, then words, then figures and times. */
type Kind = 'sentence' | 'word' | 'time' | 'number'

interface Column {
  name: string
  kind: Kind
  cells: string[]
  width: number
  /** No row says anything. */
  isEmpty: boolean
}

function columnOf(name: string, values: readonly Cell[], screen: Screen): Column {
  const given = values.filter((value) => value !== null && value !== '')
  const isAll = (test: (value: Cell) => boolean) => given.length > 0 && given.every(test)
  const isTime = isAll((value) => typeof value === 'string' && isoTime.test(value))
  const cells = values.map((value) => {
    if (value === null) return '-'
    return oneLine(isTime ? timeOf(String(value), screen) : String(value))
  })
  const width = [name, ...cells].reduce((widest, cell) => Math.max(widest, stringWidth(cell)), 0)
  const text: Kind = cells.some((cell) => cell.includes(' ')) ? 'sentence' : 'word'
  const kind = isTime ? 'time' : isAll((value) => typeof value === 'number') ? 'number' : text
  return { name, kind, cells, width, isEmpty: values.length > 0 && given.length === 0 }
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, { width }) => sum + width, gap * (columns.length - 1))
}

/** The widest column gives way first. The first column is the name by which other commands know the row. */
const waysToFit: readonly { floor: number; gives(kind: Kind, n: number): boolean }[] = [
  { floor: 24, gives: (kind) => kind === 'sentence' },
  { floor: 9, gives: (kind, n) => (kind === 'sentence' || kind === 'word') && n > 0 },
  { floor: 9, gives: (kind) => kind === 'sentence' || kind === 'word' },
  { floor: 6, gives: (kind) => kind === 'sentence' || kind === 'word' },
  { floor: 3, gives: () => true },
]

/** The widths of columns that have `room` together; at least three each, also where that is too much. */
function fittedTo(room: number, columns: readonly Column[]): number[] {
  const widths = columns.map(({ width }) => Math.min(width, Math.max(room, 3)))
  let excess = widths.reduce((sum, width) => sum + width, 0) - room
  for (const { floor, gives } of waysToFit) {
    while (excess > 0) {
      const given = columns.map(({ kind }, n) => (gives(kind, n) && widths[n]! > floor ? widths[n]! : 0))
      const widest = Math.max(...given)
      if (widest === 0) break
      widths[given.indexOf(widest)] = widest - 1
      excess--
    }
  }
  return widths
}

function aligned(text: string, textWidth: number, width: number, kind: Kind): string {
  const padding = ' '.repeat(Math.max(0, width - textWidth))
  return kind === 'number' ? `${padding}${text}` : `${text}${padding}`
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** The longest beginning that is at most so many columns wide; wide characters have two. */
function beginningOf(text: string, columns: number): string {
  let width = 0
  for (const { segment, index } of graphemes.segment(text)) {
    width += stringWidth(segment)
    if (width > columns) return text.slice(0, index)
  }
  return text
}

/** Cut to so many columns, with `…` at its end. */
export function shortened(text: string, columns: number): string {
  const fitting = columns === Infinity ? text : beginningOf(text, columns)
  return fitting === text ? text : `${beginningOf(fitting, columns - 1)}…`
}

/** Broken between words; a word that is longer than a line anywhere. */
function wrapped(text: string, columns: number): string[] {
  if (stringWidth(text) <= columns) return [text]
  const lines: string[] = []
  let rest = text
  while (rest !== '') {
    const fitting = beginningOf(rest, columns)
    const blank = fitting.length < rest.length && rest[fitting.length] !== ' ' ? fitting.lastIndexOf(' ') : -1
    // A character wider than the line has a line all the same.
    const line = blank > 0 ? fitting.slice(0, blank) : fitting || rest.slice(0, 2)
    lines.push(line)
    rest = rest.slice(line.length).trimStart()
  }
  return lines
}

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/
const isTimeField = /(?:_at|At|^deadline)$/

/** `3 min ago`, `in 2 h`; the date where it is further than a week away. */
function timeOf(text: string, { now }: Screen): string {
  if (now === undefined || !isoTime.test(text)) return text
  const differenceS = Math.round((Date.parse(text) - now) / 1_000)
  const s = Math.abs(differenceS)
  if (Number.isNaN(s)) return text
  if (s < 1) return 'now'
  if (s > 7 * 86_400) return new Date(text).toLocaleDateString('en-GB', { dateStyle: 'medium' })
  const [amount, unit] =
    s < 90
      ? [s, 's']
      : s < 90 * 60
        ? [Math.round(s / 60), 'min']
        : s < 36 * 3_600
          ? [Math.round(s / 3_600), 'h']
          : [Math.round(s / 86_400), 'days']
  return differenceS < 0 ? `${amount} ${unit} ago` : `in ${amount} ${unit}`
}

/** Columns and fields whose words are states: the same words elsewhere are texts of others. */
const stateNames: ReadonlySet<string> = new Set(['', 'status', 'state', 'outcome', 'index'])

const styles: readonly [style: Style, words: readonly string[]][] = [
  ['green', ['ok', 'well', 'ready', 'completed', 'idle', 'delivering', 'succeeded']],
  ['yellow', ['warn', 'degraded', 'paused', 'retrying', 'waiting', 'input_required', 'building', 'canceled']],
  ['red', ['fail', 'failed', 'down', 'error', 'dead', 'outage', 'refused']],
]
const styleOf = new Map(styles.flatMap(([style, words]) => words.map((word) => [word, style] as const)))

function painted(name: string, shown: string, { paint }: Screen, whole: string = shown): string {
  const style = stateNames.has(name) ? styleOf.get(whole.toLowerCase()) : undefined
  return style && shown !== '' ? paint(style, shown) : shown
}
