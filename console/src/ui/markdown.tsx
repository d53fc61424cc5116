/** What agents say, as the Markdown that it may be. Links lead to pages of the console or over http; HTML is text, images are their names. */

import Markdown, { type Components } from 'react-markdown'
import { Link } from 'wouter'
import { base } from '../data/links.ts'

/** Headings of the page go down to the second level. */
const heading: Components['h1'] = ({ children }) => <h3>{children}</h3>

const components: Components = {
  h1: heading,
  h2: heading,
  h3: heading,
  h4: heading,
  h5: heading,
  h6: heading,
  a({ href = '', children }) {
    if (href.startsWith(`${base}/`)) return <Link href={href.slice(base.length)}>{children}</Link>
    if (!/^https?:\/\//i.test(href)) return children
    return (
      <a href={href} target="_blank" rel="noopener noreferrer">
        {children}
      </a>
    )
  },
  // A picture from elsewhere would tell that place who reads.
  img: ({ alt }) => <span>{alt}</span>,
}

export function Prose({ children }: { children: string }) {
  return (
    <div className="prose markdown">
      <Markdown components={components}>{children}</Markdown>
    </div>
  )
}
