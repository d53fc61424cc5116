/** The text of a filter_sql in, the first form of writing that is not allowed out, if there is one. */

/**
 * What the parser would read and the tree no longer shows: comments, and strings that say with escapes what they could
 * say plainly. Strings and names are passed over whole, so that nothing inside of them counts. A prefix of a string
 * belongs to the word before it otherwise: like'x' is LIKE and a plain string.
 */
const forms =
  /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--|\/\*|;|\\|(?<![\w$\u0080-\uffff])(?:\$\w*\$|[eE]'|[nN]'|[bB]'|[xX]'|[uU]&['"])/g

const names: Record<string, string> = {
  '--': 'a comment',
  '/*': 'a comment',
  ';': 'a semicolon',
  '\\': 'a backslash outside of a string',
  $: 'a dollar-quoted string',
  e: "a string with escapes (E'…')",
  n: "a national string (N'…')",
  b: "a bit string (B'…')",
  x: "a bit string (X'…')",
  u: 'unicode escapes (U&)',
}

/** Its name for people; undefined when the text is written plainly. */
export function forbiddenForm(text: string): string | undefined {
  for (const [form] of text.matchAll(forms)) {
    if (form[0] === "'" || form[0] === '"') continue
    return names[form] ?? names[form[0]!.toLowerCase()]
  }
  return undefined
}
