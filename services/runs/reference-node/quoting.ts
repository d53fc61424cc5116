/** Texts that others wrote, so that a name in them calls nobody: code is never searched for names. */

const shownMax = 100

/** As inline code: one line, cut, without the marks that would end it. */
export function quoted(text: string, lengthMax = shownMax): string {
  const plain = text.replaceAll('`', "'").replace(/\s+/g, ' ').trim()
  const letters = [...plain]
  return `\`${letters.length > lengthMax ? `${letters.slice(0, lengthMax).join('')}…` : plain || '-'}\``
}

/** A longer text as quoted lines. */
export function quotedLines(text: string): string {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `> ${line}`)
    .join('\n')
}
