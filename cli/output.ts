/** What people see on the terminal: tables, aligned fields, items as they come, and a progress bar. */

import { SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import type { Output, Progress } from '#runtime/control.ts'

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
  for (const row of rows) plain.push(row.map((cell) => (cell === null ? '-' : String(cell))))
  return plain.toString()
}

/** `name  value` lines, aligned. */
export function fields(values: Record<string, unknown>): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length))
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`)
    .join('\n')
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

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
          format: `${label} {bar} {percentage}% {value}/{total}`,
          stream: process.stderr,
        })
        bar.start(state.total, state.done)
      }
      bar.setTotal(state.total)
      bar.update(state.done)
    },
    end,
  }
}
