/** The log for people at a terminal: one line an entry, and none for requests that the console makes by itself. */

import { oneLine, type Paint, type Style } from '#lib/terminal-text.ts'

type Entry = Record<string, unknown> & { level: number; time: string; msg?: string }

/** pino's levels from which on an entry is in colour. */
const warn = 40
const error = 50
/** Requests by which the console buys its tokens; the others that change nothing are GET. */
const tokenRoute = /\/session\/token$/

/**
 * The line of an entry in pino's JSON; null for one that is not shown. `all` shows these as well, and the entry that the banner
 * of the start repeats. `paint` colours a part.
 */
export function terminalLine(json: string, { all, paint }: { all: boolean; paint: Paint }): string | null {
  const { level, time, msg = '', ...fields } = JSON.parse(json) as Entry
  const clock = paint('dim', new Date(time).toTimeString().slice(0, 8))
  if (!all && (isConsoles(msg, fields) || msg === 'process.started')) return null
  if (msg === 'http.request') return `${clock} ${requestOf(fields, paint)}\n`
  const { err, hint, ...others } = fields as { err?: { message?: string; stack?: string }; hint?: string }
  const style: Style = level >= error ? 'red' : level >= warn ? 'yellow' : 'cyan'
  const parts = [
    clock,
    ...(level >= warn ? [paint(style, level >= error ? 'ERROR' : 'WARN')] : []),
    paint(style, oneLine(msg)),
    ...Object.entries(others).map(([name, value]) => `${paint('dim', `${name}=`)}${shown(value)}`),
    ...(err ? [oneLine(err.message ?? '')] : []),
    ...(hint === undefined ? [] : [paint('dim', `(${oneLine(hint)})`)]),
  ]
  const stack = level >= error && err?.stack ? err.stack.split('\n').slice(1) : []
  return [parts.join(' '), ...stack.map((one) => paint('dim', oneLine(one)))]
    .map((one) => `${one}\n`)
    .join('')
}

/** The console reads again and again what it shows; what a person changes there has a line, and so has a fault. */
function isConsoles(msg: string, { browser, method, route, status }: Record<string, unknown>): boolean {
  if (msg !== 'http.request' || browser !== true || Number(status) >= 400) return false
  return method === 'GET' || tokenRoute.test(String(route))
}

function requestOf(
  { method, route, status, took_ms: tookMs, agent, code }: Record<string, unknown>,
  paint: Paint,
): string {
  const style: Style = Number(status) >= 500 ? 'red' : Number(status) >= 400 ? 'yellow' : 'green'
  const took = Number(tookMs)
  const parts = [
    `${method} ${oneLine(String(route))} ${paint(style, String(status))}`,
    `${took < 10 ? took.toFixed(1) : Math.round(took)} ms`,
    ...(agent === undefined ? [] : [oneLine(String(agent))]),
    ...(code === undefined ? [] : [paint(style, oneLine(String(code)))]),
  ]
  return parts.join(' ')
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return oneLine(typeof value === 'string' && /\s/.test(value) ? JSON.stringify(value) : text)
}
