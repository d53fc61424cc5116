/** What people see on the terminal: lines, results, and a progress bar. Only this file writes to it. */

import { readFileSync } from 'node:fs'
import { SingleBar } from 'cli-progress'
import { keepingLines, oneLine, painterOf } from '#lib/terminal-text.ts'
import type { Shown } from '#operations/action.ts'
import type { Output, Progress } from '#runtime/start/control.ts'
import { layOut, type Screen } from './layout.ts'

export { indented, oneLine, visibleJson } from '#lib/terminal-text.ts'

/** Prints lines, however their values got there; an empty text is nothing. */
export function print(text: string): void {
  if (text !== '') console.log(keepingLines(text))
}

export function printError(text: string): void {
  console.error(keepingLines(text))
}

/** A message whose first word, such as `error:`, is red on a terminal. */
export function faultText(text: string, stream: NodeJS.WritableStream = process.stderr): string {
  return keepingLines(text).replace(/^\S+:/, (word) => painterOf(stream)('red', word))
}

export function printFault(text: string): void {
  console.error(faultText(text))
}

/** Where a terminal does not say how many it has. */
const usualColumns = 80
const helpColumnsMax = 100

type Terminal = NodeJS.WritableStream & { isTTY?: boolean; columns?: number }

/** How results look in this stream: only a terminal has a width, and times as people say them. */
export function screenOf(
  stream: Terminal,
  { wide = false, now = Date.now() }: { wide?: boolean | undefined; now?: number } = {},
): Screen {
  const isFitted = stream.isTTY === true && !wide
  return {
    columns: isFitted ? stream.columns || usualColumns : Number.POSITIVE_INFINITY,
    now: isFitted ? now : undefined,
    paint: painterOf(stream),
  }
}

/** Long lines are hard to read also where there is room. */
export function helpWidth(stream: Terminal): number {
  return Math.min(stream.isTTY ? stream.columns || usualColumns : usualColumns, helpColumnsMax)
}

/** A text has lines of its own, put together by `line` and `indented`. */
export function show(shown: Shown, screen: Screen): void {
  const text = typeof shown === 'string' ? keepingLines(shown) : layOut(shown, screen)
  if (text !== '') console.log(text)
}

/** As it comes, while a command is at work. */
export function showNow(shown: Shown): void {
  show(shown, screenOf(process.stdout))
}

/** For programs: JSON as it is. */
export function printJson(value: unknown): void {
  console.log(JSON.stringify(value))
}

/** The result of a command: as one JSON document, or in words. */
export function printResult(
  json: boolean | undefined,
  result: unknown,
  render: (screen: Screen) => Shown,
  { wide }: { wide?: boolean | undefined } = {},
): void {
  const screen = screenOf(process.stdout, { wide })
  if (json) printJson(result)
  else show(render(screen), screen)
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
