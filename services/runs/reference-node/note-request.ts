/** Notes are written where a message asks for one in so many words. */

const name = String.raw`(?:(?:@([A-Za-z][\w-]{1,31})|([A-Z][A-Z0-9_]{1,31}))[,:]?\s{1,4})?`
const words = String.raw`(?:\/note|[Nn]ote (?:this|that|down)|(?:[Ww]rite|[Mm]ake|[Ll]eave|[Tt]ake|[Aa]dd) a note|[Rr]emember (?:this|that))`
/** Bounded, so that no message takes more than its length. At the beginning of a sentence, after the name of the agent that is meant, where there is one. */
const request = new RegExp(
  String.raw`(?:^|[.!?]\s|\n)\s{0,4}${name}(?:[Pp]lease,? )?${words}(?![\w-])(?: that)?[:,.]?\s*`,
)

export interface NoteRequest {
  /** Whom it names, in capitals. */
  agent: string | undefined
  /** The note: the message behind the request, or else before it. May be empty. */
  text: string
}

/** `note this`, `note that`, `write a note`, `remember that` and `/note`; undefined where a message has none of them. */
export function noteRequestIn(message: string): NoteRequest | undefined {
  const found = request.exec(message)
  if (!found) return undefined
  const { 0: asked, 1: atName, 2: bareName, index } = found
  const [before, after] = [message.slice(0, index + 1), message.slice(index + asked.length)].map((text) =>
    /[\p{L}\p{N}]/u.test(text) ? text.trim() : '',
  )
  return { agent: (atName ?? bareName)?.toUpperCase(), text: after || (index > 0 ? before! : '') }
}
