/** Finds and removes secrets in texts: those of a file of the operator and the platform's own keys. */

/** Shown in place of a secret. */
const cut = '[cut]'
/** A text may be escaped inside a text that is escaped: escapes are undone this often. */
const unescapesMax = 3

/** True when the text, as it is or with its JSON or percent escapes undone, holds one of `secrets` or a key of the platform. */
export function containsSecret(text: string, secrets: readonly string[]): boolean {
  const tried = new Set<string>()
  let forms = [text]
  for (let n = 0; n <= unescapesMax && forms.length > 0; n++) {
    for (const form of forms) {
      if (holds(form, secrets)) return true
      tried.add(form)
    }
    // Each kind by itself: a secret may hold what looks like an escape of the other one.
    const plainer = forms.flatMap((form) => [withoutBackslashes(form), withoutPercents(form)])
    forms = [...new Set(plainer)].filter((form) => !tried.has(form))
  }
  return false
}

/** The text with every secret cut out, also where it is written with JSON or percent escapes. */
export function redact(text: string, secrets: readonly string[]): string {
  let clean = text.replace(platformKeys, cut)
  const longestFirst = [...secrets].sort((a, b) => b.length - a.length)
  for (const secret of longestFirst) {
    const escaped = JSON.stringify(secret).slice(1, -1)
    for (const form of new Set([secret, escaped, encodeURIComponent(secret.toWellFormed())])) {
      clean = clean.replaceAll(form, cut)
    }
  }
  // A secret behind other escapes cannot be cut out by itself.
  return containsSecret(clean, secrets) ? cut : clean
}

function holds(text: string, secrets: readonly string[]): boolean {
  platformKeys.lastIndex = 0
  return platformKeys.test(text) || secrets.some((secret) => text.includes(secret))
}

const simpleEscapes: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

function withoutBackslashes(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|([\s\S]))/g, (_, code?: string, character?: string) =>
    code === undefined
      ? (simpleEscapes[character as string] ?? (character as string))
      : String.fromCharCode(Number.parseInt(code, 16)),
  )
}

function withoutPercents(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/(?:%[0-9a-fA-F]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString(),
  )
}

/** Agent keys, gateway keys and the first line of a private key. */
export const platformKeys =
  /svc_[0-9a-f]{64}|vk_live_[A-Za-z0-9_-]{43}|-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/g
