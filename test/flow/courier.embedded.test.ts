/** The courier keeps its promises on the embedded log. */

import { describeCourier } from './courier.promises.ts'

describeCourier('embedded', async () => ({ env: {}, closed: async () => {} }))
