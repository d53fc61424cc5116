/** Several couriers keep their promises on the embedded log. */

import { describeCouriers } from './courier-members.promises.ts'

describeCouriers('embedded', async () => ({ env: {}, closed: async () => {} }))
