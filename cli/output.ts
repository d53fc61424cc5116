/** What people see on the terminal: lines, tables, aligned fields, and a progress bar. Only this file writes to it. */

import { readFileSync } from 'node:fs'
import { SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import { indented, keepingLines, oneLine } from '#lib/terminal-text.ts'
import type { Output, Progress } from '#runtime/start/control.ts'

export { indented, oneLine, visibleJson } from '#lib/terminal-text.ts'

/** Prints lines, however their values got there; an empty text is nothing. */
export function print(text: string): void {
  if (text !== '') console.log(keepingLines(text))
}

export function printError(text: string): void {
  console.error(keepingLines(text))
}

/** For programs: JSON as it is. */
export function printJson(value: unknown): void {
  console.log(JSON.stringify(value))
}

/** The result of a command: as one JSON document, or in words. */
export function printResult(json: boolean | undefined, result: unknown, render: () => string): void {
  if (json) printJson(result)
  else print(render())
}

/** Without a line break at its end. */
export function write(text: string): void {
  process.stdout.write(keepingLines(text))
}

/** On a terminal, begins again at its top. */
export function clearScreen(): void {
  if (process.stdout.isTTY) process.stdout.write('\u001b[2J\u001b[H')
}

/** A template for one line: what it is given cannot end the line. */
export function line(texts: TemplateStringsArray, ...values: (string | number | null)[]): string {
  return texts.map((text, n) => (n === 0 ? text : `${oneLine(String(values[n - 1]))}${text}`)).join('')
}

/** Columns without lines between them, and without colours. */
export function table(head: string[], rows: (string | number | null)[][]): string {
  const none = {
    top: '',
    'top-mid': '',
    'top-left': '',
    'top-right': '',
    mid: '',
    'left-mid': '',
    'mid-mid': '',
  }
  const bare = { 'right-mid': '', bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '' }
  const chars = { ...none, ...bare, left: '', right: '', middle: '  ' }
  const style = { 'padding-left': 0, 'padding-right': 0, border: [], head: [] }
  const plain = new Table({ head, chars, style })
  for (const row of rows) plain.push(row.map((cell) => (cell === null ? '-' : oneLine(String(cell)))))
  return plain.toString()
}

/** `name  value` lines, aligned; those of `bodies` may have further lines, which are indented. */
export function fields(values: Record<string, unknown>, bodies: readonly string[] = []): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length))
  return Object.entries(values)
    .map(([name, value]) => {
      const text = textOf(value)
      const shown = bodies.includes(name) ? indented(text, ' '.repeat(width + 2)) : oneLine(text)
      return `${name.padEnd(width)}  ${shown}`
    })
    .join('\n')
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

export const noOutput: Output = { item() {}, progress() {} }

/** Passes items on as they come; progress is a bar on standard error where that is a terminal, else it is not shown. */
export function createOutput<I = never>(onItem: (value: I) => void): Output<I> & { end(): void } {
  let bar: SingleBar | undefined
  let label = ''
  const end = () => {
    bar?.stop()
    bar = undefined
  }
  return {
    item: onItem,
    progress(state: Progress) {
      if (!process.stderr.isTTY) return
      if (!bar || label !== state.label) {
        end()
        label = state.label
        bar = new SingleBar({
          format: '{label} {bar} {percentage}% {value}/{total}',
          stream: process.stderr,
        })
        bar.start(state.total, state.done, { label: oneLine(label) })
      }
      bar.setTotal(state.total)
      bar.update(state.done)
    },
    end,
  }
}

export function platformVersion(): string {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
