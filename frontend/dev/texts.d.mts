export const shortAnswer: string;
export const longAnswer: string;
export const hostileMarkdown: string;
export const thoughts: string;
