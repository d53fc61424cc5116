/** The AsyncAPI document as one page for people: no script, nothing loaded. */

import { createHash } from 'node:crypto'
import { type RuleSection, readingRules } from '#topics/promises.ts'
import type { AsyncApi, AvroRecord, Channel, Message } from './document.ts'

const style = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; background: #fff }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #d0d7de }
code { font: 0.9em ui-monospace, monospace; background: #f3f4f6; padding: 0 0.2em; overflow-wrap: anywhere }
td:first-child code { white-space: nowrap }
section { border-top: 2px solid #d0d7de; margin-top: 2rem }
dt { font-weight: 600 }
dd { margin: 0 0 0.5rem 1.5rem }
a { color: #0550ae }
@media (prefers-color-scheme: dark) {
  body { color: #e6e9ec; background: #14171a }
  code { background: #24292f }
  th, td, section { border-color: #3d444d }
  a { color: #79b8ff }
}`

export const pageHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
} as const

/** HTML of the whole document. `jsonAddress` is where the document itself is, relative to the page. */
export function asyncApiPage(document: AsyncApi, jsonAddress: string): string {
  const channels = Object.values(document.channels)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(document.info.title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${escaped(document.info.title)}</h1>
<p>What other systems can read, and rely on. For programs: <a href="${escaped(jsonAddress)}">AsyncAPI ${escaped(document.asyncapi)}</a>.</p>
<nav aria-label="Topics"><ul>${channels.map(({ title, summary }) => `<li><a href="#${escaped(title)}">${escaped(title)}</a>: ${marked(summary)}</li>`).join('')}</ul></nav>
${channels.map((channel) => channelSection(channel, document.components.messages)).join('\n')}
<section id="rules"><h2>Rules of all topics</h2>
${readingRules.map(ruleSection).join('\n')}
</section>
</main>
</body>
</html>
`
}

function channelSection(channel: Channel, messages: Record<string, Message>): string {
  const { kafka } = channel.bindings
  const configuration = Object.entries(kafka.topicConfiguration as object)
  const facts = [
    [
      'Name in the log',
      `\`${channel.address}\`, epoch ${channel['x-epoch']}, ${kafka.partitions} partitions`,
    ],
    ['Kept', configuration.map(([name, value]) => `\`${name}=${value}\``).join(', ')],
    ['Subject in the registry', `\`${channel['x-subject']}\``],
    ...channel.description.split('\n\n').map((line) => /^\*\*(.*?)\*\*: (.*)$/s.exec(line)!.slice(1)),
  ]
  return `<section id="${escaped(channel.title)}"><h2>${escaped(channel.title)}</h2>
<p>${marked(channel.summary)}</p>
<dl>${facts.map(([about = '', text = '']) => `<dt>${escaped(about)}</dt><dd>${marked(text)}</dd>`).join('')}</dl>
${Object.keys(channel.messages)
  .map((name) => messagePart(messages[name]!))
  .join('\n')}
</section>`
}

function messagePart(message: Message): string {
  const { headers, payload } = message
  const rows = Object.entries(headers.properties as Record<string, { description: string }>).map(
    ([name, { description }]) => [
      `\`${name}\``,
      headers.required.includes(name) ? 'every record' : 'some records',
      description,
    ],
  )
  return `<h3>${escaped(message.title)}</h3>
<p>${marked(message.summary)}</p>
${'schema' in payload ? tableOf(['field', 'type', 'says'], payload.schema.fields.map(fieldRow)) : ''}
${tableOf(['header', 'on', 'says'], rows)}`
}

function fieldRow({ name, type, doc = '' }: AvroRecord['fields'][number]): string[] {
  return [`\`${name}\``, typeText(type), doc]
}

/** An Avro type in words. */
function typeText(type: unknown): string {
  if (typeof type === 'string') return type
  if (Array.isArray(type)) return type.map(typeText).join(' or ')
  const { type: kind, logicalType, symbols, items, values } = type as Record<string, unknown>
  if (typeof logicalType === 'string') return `${String(kind)} (${logicalType})`
  if (kind === 'enum') return (symbols as string[]).join(', ')
  if (kind === 'array') return `array of ${typeText(items)}`
  return kind === 'map' ? `map of ${typeText(values)}` : String(kind)
}

function tableOf(head: string[], rows: string[][]): string {
  const cells = (tag: 'th' | 'td', texts: string[]) =>
    texts.map((text) => `<${tag}>${marked(text)}</${tag}>`).join('')
  return `<table><thead><tr>${cells('th', head)}</tr></thead><tbody>${rows.map((row) => `<tr>${cells('td', row)}</tr>`).join('')}</tbody></table>`
}

function ruleSection({ title, rules }: RuleSection): string {
  return `<h3>${escaped(title)}</h3><ul>${rules.map((rule) => `<li>${marked(rule)}</li>`).join('')}</ul>`
}

/** Text in backticks becomes code; there is no other Markdown in these texts. */
function marked(text: string): string {
  return escaped(text).replace(/`([^`]*)`/g, '<code>$1</code>')
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
