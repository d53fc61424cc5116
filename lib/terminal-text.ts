/** Texts of others on a terminal: nothing in them acts there, hides or turns its surroundings, or begins a line of its own; and colours. */

import { styleText } from 'node:util'

export type Style = Parameters<typeof styleText>[0]
/** Colours a text that is safe already: `oneLine` would show the codes as text. */
export type Paint = (style: Style, text: string) => string

/** Colours on a terminal only; NO_COLOR and FORCE_COLOR have their usual meanings. */
export function painterOf(stream: NodeJS.WritableStream): Paint {
  return (style, text) => styleText(style, text, { stream })
}

/** Controls (C0 and C1), bidi controls, line and paragraph separators. */
const unsafe = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

const familiar: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** A value within a line: what a terminal would act on is shown as `\x1b`, `\n` or `\u202e`. */
export function oneLine(text: string): string {
  return text.replace(unsafe, escapeOf)
}

/**
 * A text that may have lines, such as a note: each further line begins with `indent`, so that none passes for a line of
 * ours. Tabs stay.
 */
export function indented(text: string, indent = '  '): string {
  return keepingLines(text.replaceAll('\r\n', '\n')).replaceAll('\n', `\n${indent}`)
}

/** Text whose lines are ours: its line breaks and tabs stay. For texts put together from the above. */
export function keepingLines(text: string): string {
  return text.replace(unsafe, (found) => (found === '\n' || found === '\t' ? found : escapeOf(found)))
}

/** The same JSON, in one line or in several. JSON itself escapes C0 controls only. */
export function visibleJson(json: string): string {
  return json.replace(unsafe, (found) => (found === '\n' ? found : `\\u${hexOf(found, 4)}`))
}

function escapeOf(found: string): string {
  return familiar[found] ?? (found <= '\u00ff' ? `\\x${hexOf(found, 2)}` : `\\u${hexOf(found, 4)}`)
}

function hexOf(found: string, digits: number): string {
  return found.charCodeAt(0).toString(16).padStart(digits, '0')
}

const separators = /[\u2028\u2029]/g

/** The same JSON. Some readers take these two for the ends of lines: in JSON they are only within texts. */
export function withoutSeparators(json: string): string {
  return json.replace(separators, (found) => (found === '\u2028' ? '\\u2028' : '\\u2029'))
}
